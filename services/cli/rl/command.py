"""Turn tasks of software engineering into items of a batch, which tests score."""

from pathlib import Path

import msgspec

from services.amounts import plural
from services.cli.command import Command, Context, action, arg
from services.cli.console import complain, say
from services.cli.rl.swe_task import SweTask, task_item
from services.errors import InvalidArgument
from services.home.paths import replace_file
from services.validation import decode

EXAMPLES = """\
examples:
  hermes rl items tasks.jsonl --out items.jsonl"""


def _items(context: Context) -> int:
    """Write tasks of repositories as items with a prompt, a setup script and a check."""
    source: Path = context.given.tasks
    items: list[bytes] = []
    is_whole = True
    for number, line in enumerate(source.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            items.append(msgspec.json.encode(task_item(decode(line, SweTask))))
        except (InvalidArgument, msgspec.DecodeError) as error:
            complain(f"{source}:{number}: {error}")
            is_whole = False
    replace_file(context.given.out, b"".join(item + b"\n" for item in items), 0o600)
    say(f"wrote {plural(len(items), 'item')} to {context.given.out}")
    return 0 if is_whole else 1


COMMAND = Command(
    EXAMPLES,
    actions=(
        action(
            _items,
            arg("TASKS", "a JSONL file of tasks", Path),
            arg("--out FILE", "write the items into this file", Path, required=True),
        ),
    ),
    has_home=False,
)
