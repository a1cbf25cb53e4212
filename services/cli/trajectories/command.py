"""Turn trajectories into data sets to train models with."""

from pathlib import Path

from services.cli.command import Command, Context, action, arg
from services.cli.console import complain
from services.cli.trajectories.options import OPTIONS, dataset_plan, print_counts
from services.errors import InvalidArgument
from services.home.trajectories.dataset import DatasetWriter
from services.home.trajectories.formats import parse_trajectory

EXAMPLES = """\
examples:
  hermes trajectories convert trajectory_samples.jsonl --out dataset
  hermes trajectories convert *.jsonl --out dataset --format openai --deduplicate --parquet
  hermes trajectories convert runs.jsonl --out dataset --filter refused --filter cut
  hermes trajectories convert runs.jsonl --out dataset --max-tokens 16000 --tokenizer model/"""


def _convert(context: Context) -> int:
    """Write the trajectories of JSONL files as a data set."""
    is_whole = True
    with DatasetWriter(dataset_plan(context)) as writer:
        for path in context.given.files:
            is_whole &= _add_file(writer, path)
    print_counts(context, writer)
    return 0 if is_whole else 1


def _add_file(writer: DatasetWriter, path: Path) -> bool:
    """Add a file; names the lines that are no trajectories, and returns whether there are none."""
    is_whole = True
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                trajectory = parse_trajectory(line)
            except InvalidArgument as error:
                complain(f"{path}:{number}: {error}")
                is_whole = False
                continue
            writer.add(trajectory)
    return is_whole


COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_convert, arg("FILE+", "files in either format", Path, field="files"), *OPTIONS),
    ),
    has_home=False,
)
