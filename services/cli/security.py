"""Try how commands and texts of your own are judged."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from msgspec import Struct

from hermes.agent.v1 import catalog_pb2
from hermes.agent.v1.catalog_pb2_grpc import CatalogServiceStub
from services.amounts import plural
from services.cli.command import Action, Command, Context, flag
from services.cli.console import complain
from services.cli.output import enum_word
from services.cli.standard_input import arriving_lines
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes security classify < commands.txt
  hermes security classify --jsonl < commands.jsonl > verdicts.jsonl
  hermes security scan --strict < notes.txt"""

MAX_ITEMS = 500
MAX_CHARS = 500_000
"""Of all items that are sent together, and of one."""


class Item(Struct, frozen=True):
    """A line of the input."""

    id: Any
    """As it was given; None in plain text."""
    text: str


UNREAD = Item(None, "")
"""Keeps the place of a line that is not judged."""
_UNREAD = "unread"
"""What is said of it."""


class _Lines:
    """Makes items of lines; those that are none are told of, and those of objects passed over."""

    def __init__(self, *, jsonl: bool) -> None:
        self._jsonl = jsonl
        self._number = 0
        self.broken = 0

    def items(self, lines: Iterable[str]) -> Iterator[Item]:
        """The items of the next lines."""
        for line in lines:
            self._number += 1
            try:
                if not self._jsonl:
                    yield _checked(Item(None, line), self._number)
                elif text := line.strip():
                    yield _checked(_decoded(text, self._number), self._number)
            except InvalidArgument as error:
                self.broken += 1
                complain(error.message)
                if not self._jsonl:
                    yield UNREAD


_Verdicts = Sequence[tuple[str, dict[str, Any]]]
"""Of each item, the line for people and what JSON says beside the id."""


async def _classify(context: Context) -> int:
    stub = context.stub(CatalogServiceStub)

    async def judge(texts: Sequence[str]) -> _Verdicts:
        request = catalog_pb2.ClassifyCommandsRequest(commands=texts)
        verdicts = (await stub.ClassifyCommands(request)).verdicts
        classes = [enum_word(catalog_pb2.CommandClass, one.command_class) for one in verdicts]
        return [
            (
                "\t".join(filter(None, (name, ",".join(one.families)))),
                {"class": name, "families": list(one.families)},
            )
            for name, one in zip(classes, verdicts, strict=True)
        ]

    return await _judge(context, judge)


async def _scan(context: Context) -> int:
    stub = context.stub(CatalogServiceStub)

    async def judge(texts: Sequence[str]) -> _Verdicts:
        request = catalog_pb2.ScanTextsRequest(texts=texts, strict=context.given.strict)
        return [_finding(one.threats) for one in (await stub.ScanTexts(request)).findings]

    return await _judge(context, judge)


def _finding(threats: Iterable[catalog_pb2.Threat]) -> tuple[str, dict[str, Any]]:
    families = list(dict.fromkeys(threat.family for threat in threats))
    spans = list(dict.fromkeys((threat.begin, threat.end) for threat in threats))
    return ",".join(families) or "clean", {"families": families, "spans": spans}


async def _judge(context: Context, judge: Callable[[Sequence[str]], Awaitable[_Verdicts]]) -> int:
    """Judge each line as soon as it is there; returns the exit status."""
    given = _Lines(jsonl=context.given.jsonl)
    async with aclosing(arriving_lines()) as arriving:
        async for lines in arriving:
            for batch in _batches(given.items(lines)):
                verdicts = await judge([item.text for item in batch])
                for item, (line, described) in zip(batch, verdicts, strict=True):
                    row = {"id": item.id, **described}
                    text = json.dumps(row, ensure_ascii=False) if context.given.jsonl else line
                    sys.stdout.write(f"{_UNREAD if item is UNREAD else text}\n")
                sys.stdout.flush()
    if not given.broken:
        return 0
    complain(f"{plural(given.broken, 'line')} could not be read; the others are answered")
    return 1


def _checked(item: Item, number: int) -> Item:
    if len(item.text) > MAX_CHARS:
        raise InvalidArgument(f"line {number}: longer than {MAX_CHARS} characters")
    return item


def _decoded(line: str, number: int) -> Item:
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"line {number}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidArgument(f'line {number}: must be an object {{"id", "text"}}')
    fields = cast("dict[str, Any]", row)
    text = fields.get("text")
    if "id" not in fields or not isinstance(text, str):
        raise InvalidArgument(f'line {number}: must have an "id" and a "text" that is a string')
    # Half a pair of surrogates is no character and cannot be sent.
    return Item(fields["id"], text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    chars = 0
    for item in items:
        if batch and (len(batch) == MAX_ITEMS or chars + len(item.text) > MAX_CHARS):
            yield batch
            batch, chars = [], 0
        batch.append(item)
        chars += len(item.text)
    if batch:
        yield batch


_JSONL = flag("--jsonl", 'read {"id", "text"} a line, and write JSON')
COMMAND = Command(
    EXAMPLES,
    services=("agent",),
    actions=(
        Action(
            "classify",
            "judge commands, one a line of the input; none is run",
            _classify,
            (_JSONL,),
        ),
        Action(
            "scan",
            "find what tries to give orders in texts, one a line of the input",
            _scan,
            (_JSONL, flag("--strict", "as for entries of the memory")),
        ),
    ),
)
