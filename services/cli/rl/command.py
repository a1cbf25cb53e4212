"""Turn tasks of software engineering into items of a batch, which tests score."""

from pathlib import Path

import msgspec

from services.amounts import plural
from services.cli.command import Command, Context, action, arg
from services.cli.console import EXIT_FAILURE, complain, say
from services.home.batches.swe_task import SweTask, task_item
from services.home.json_lines import parse_lines
from services.home.paths import replace_file
from services.validation import decode

EXAMPLES = """\
examples:
  hermes rl items tasks.jsonl --out items.jsonl"""


def _items(context: Context) -> int:
    """Write tasks of repositories as items with a prompt, a setup script and a check."""
    problems: list[str] = []

    def parse(line: bytes, _number: int) -> bytes:
        return msgspec.json.encode(task_item(decode(line, SweTask)))

    items = list(parse_lines(context.given.tasks, parse, problems.append))
    for problem in problems:
        complain(problem)
    replace_file(context.given.out, b"".join(item + b"\n" for item in items), 0o600)
    say(f"wrote {plural(len(items), 'item')} to {context.given.out}")
    return EXIT_FAILURE if problems else 0


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
