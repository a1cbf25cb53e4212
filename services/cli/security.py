"""Try how commands and texts of your own are judged."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from msgspec import Struct

from hermes.agent.v1 import catalog_pb2
from hermes.agent.v1.catalog_pb2_grpc import CatalogServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import complain, counted
from services.cli.standard_input import arriving_lines
from services.cli.startup import load, logged
from services.config import Settings
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes security classify < commands.txt
  hermes security classify --jsonl < commands.jsonl > verdicts.jsonl
  hermes security scan --strict < notes.txt"""

MAX_ITEMS = 500
MAX_CHARS = 500_000
"""Of all items that are sent together, and of one."""

_CLASSES = {
    catalog_pb2.COMMAND_CLASS_SAFE: "safe",
    catalog_pb2.COMMAND_CLASS_DANGEROUS: "dangerous",
    catalog_pb2.COMMAND_CLASS_HARDLINE: "hardline",
    catalog_pb2.COMMAND_CLASS_UNPARSEABLE: "unparseable",
}


class Item(Struct, frozen=True):
    """A line of the input."""

    id: Any
    """As it was given; None in plain text."""
    text: str


UNREAD = Item(None, "")
"""Keeps the place of a line that is not judged."""
_UNREAD = "unread"
"""What is said of it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes security`."""
    actions = Actions(parser, "classify|scan")
    jsonl = 'read {"id", "text"} a line, and write JSON'
    classify = actions.add("classify", "judge commands, one a line of the input; none is run")
    classify.add_argument("--jsonl", action="store_true", help=jsonl)
    scan = actions.add("scan", "find what tries to give orders in texts, one a line of the input")
    scan.add_argument("--jsonl", action="store_true", help=jsonl)
    scan.add_argument("--strict", action="store_true", help="as for entries of the memory")


def run(arguments: argparse.Namespace) -> int:
    """Judges the lines of the input."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(_judge(settings, arguments))


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


async def _judge(settings: Settings, arguments: argparse.Namespace) -> int:
    """Judge each line, as soon as it is there; the status that the command ends with."""
    given = _Lines(jsonl=arguments.jsonl)
    async with connected(settings, ("agent",)) as channels, aclosing(arriving_lines()) as arriving:
        stub = CatalogServiceStub(channels.to("agent"))
        async for lines in arriving:
            for batch in _batches(given.items(lines)):
                await _answer(stub, batch, arguments)
    if not given.broken:
        return 0
    complain(f"{counted(given.broken, 'line')} could not be read; the others are answered")
    return 1


async def _answer(
    stub: CatalogServiceStub, batch: Sequence[Item], arguments: argparse.Namespace
) -> None:
    if arguments.action == "classify":
        lines = await _classified(stub, batch, jsonl=arguments.jsonl)
    else:
        lines = await _scanned(stub, batch, arguments)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


async def _classified(
    stub: CatalogServiceStub, batch: Sequence[Item], *, jsonl: bool
) -> Iterator[str]:
    request = catalog_pb2.ClassifyCommandsRequest(commands=[item.text for item in batch])
    answer = await stub.ClassifyCommands(request)
    judged = zip(batch, answer.verdicts, strict=True)
    if not jsonl:
        return (
            "\t".join(filter(None, (_CLASSES[found.command_class], ",".join(found.families))))
            if item is not UNREAD
            else _UNREAD
            for item, found in judged
        )
    return (
        _encoded(
            {
                "id": item.id,
                "class": _CLASSES[found.command_class],
                "families": list(found.families),
            }
        )
        for item, found in judged
    )


async def _scanned(
    stub: CatalogServiceStub, batch: Sequence[Item], arguments: argparse.Namespace
) -> Iterator[str]:
    texts = [item.text for item in batch]
    request = catalog_pb2.ScanTextsRequest(texts=texts, strict=arguments.strict)
    answer = await stub.ScanTexts(request)
    scanned = zip(batch, answer.findings, strict=True)
    if not arguments.jsonl:
        return (
            _UNREAD if item is UNREAD else ",".join(_families(found)) or "clean"
            for item, found in scanned
        )
    return (
        _encoded(
            {
                "id": item.id,
                "families": _families(found),
                "spans": [list(span) for span in _spans(found)],
            }
        )
        for item, found in scanned
    )


def _families(found: catalog_pb2.TextFindings) -> list[str]:
    return list(dict.fromkeys(threat.family for threat in found.threats))


def _spans(found: catalog_pb2.TextFindings) -> list[tuple[int, int]]:
    return list(dict.fromkeys((threat.begin, threat.end) for threat in found.threats))


def _encoded(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


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
