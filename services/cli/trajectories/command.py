"""Turn trajectories into data sets to train models with."""

from functools import partial
from pathlib import Path

from services.cli.command import Command, Context, action, arg
from services.cli.console import EXIT_FAILURE, complain
from services.cli.trajectories.options import OPTIONS, dataset_writer, print_counts
from services.home.json_lines import parse_lines
from services.home.trajectories.converter import Line

EXAMPLES = """\
examples:
  hermes trajectories convert trajectory_samples.jsonl --out dataset
  hermes trajectories convert *.jsonl --out dataset --format openai --deduplicate --parquet
  hermes trajectories convert runs.jsonl --out dataset --filter refused --filter cut
  hermes trajectories convert runs.jsonl --out dataset --max-tokens 16000 --tokenizer model/"""


def _convert(context: Context) -> int:
    """Write the trajectories of JSONL files as a data set."""
    problems: list[str] = []

    def refuse(problem: str) -> None:
        problems.append(problem)
        complain(problem)

    with dataset_writer(context, refuse) as writer:
        for path in context.given.files:
            writer.add_all(parse_lines(path, partial(_line, path), refuse))
    print_counts(context, writer)
    return EXIT_FAILURE if problems else 0


def _line(path: Path, text: bytes, number: int) -> Line:
    return Line(f"{path}:{number}", text)


COMMAND = Command(
    EXAMPLES,
    actions=(
        action(_convert, arg("FILE+", "files in either format", Path, field="files"), *OPTIONS),
    ),
    has_home=False,
)
