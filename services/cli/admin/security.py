"""Test how Hermes classifies commands and scans texts."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import count
from typing import Any

from hermes.agent.v1 import catalog_pb2
from hermes.agent.v1.catalog_pb2_grpc import CatalogServiceStub
from services.cli.command import Command, Context, action, flag
from services.cli.console import say
from services.cli.output import enum_word, print_json
from services.cli.standard_input import arriving_lines
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes security classify < commands.txt
  hermes security classify --jsonl < commands.jsonl > verdicts.jsonl
  hermes security scan --strict < notes.txt"""

MAX_ITEMS = 500
"""The most texts of a request."""
MAX_CHARS = 500_000
"""The most characters of a text."""

Item = tuple[Any, str]
"""The id of an input line, None in plain text, and the text to judge."""
_Verdicts = Sequence[tuple[str, dict[str, Any]]]
"""For each item, the line for people and the JSON fields beside the id."""


async def _classify(context: Context) -> None:
    """Classify commands from standard input, one a line; none is run."""
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

    await _judge(context, judge)


async def _scan(context: Context) -> None:
    """Scan texts from standard input, one a line, for prompt injection."""
    stub = context.stub(CatalogServiceStub)

    async def judge(texts: Sequence[str]) -> _Verdicts:
        request = catalog_pb2.ScanTextsRequest(texts=texts, strict=context.given.strict)
        return [_finding(one.threats) for one in (await stub.ScanTexts(request)).findings]

    await _judge(context, judge)


def _finding(threats: Iterable[catalog_pb2.Threat]) -> tuple[str, dict[str, Any]]:
    families = list(dict.fromkeys(threat.family for threat in threats))
    spans = list(dict.fromkeys((threat.begin, threat.end) for threat in threats))
    return ",".join(families) or "clean", {"families": families, "spans": spans}


async def _judge(context: Context, judge: Callable[[Sequence[str]], Awaitable[_Verdicts]]) -> None:
    """Judge each line as it arrives, up to the first invalid one."""
    jsonl, numbers = context.given.jsonl, count(1)
    async with aclosing(arriving_lines()) as arriving:
        async for lines in arriving:
            items, problem = _items(lines, numbers, jsonl=jsonl)
            for start in range(0, len(items), MAX_ITEMS):
                batch = items[start : start + MAX_ITEMS]
                verdicts = await judge([text for _, text in batch])
                for (ident, _), (line, described) in zip(batch, verdicts, strict=True):
                    row = {"id": ident, **described}
                    print_json(row) if jsonl else say(line)
            sys.stdout.flush()
            if problem is not None:
                raise problem


def _items(
    lines: Iterable[str], numbers: Iterator[int], *, jsonl: bool
) -> tuple[list[Item], InvalidArgument | None]:
    """Return the items of lines, and what is wrong with the first invalid line."""
    items = list[Item]()
    for line, number in zip(lines, numbers, strict=False):
        if jsonl and not line.strip():
            continue
        try:
            item = _decoded(line, number) if jsonl else (None, line)
        except InvalidArgument as problem:
            return items, problem
        if len(item[1]) > MAX_CHARS:
            return items, InvalidArgument(f"line {number}: longer than {MAX_CHARS} characters")
        items.append(item)
    return items, None


def _decoded(line: str, number: int) -> Item:
    try:
        row: Any = json.loads(line)
        ident, text = row["id"], row["text"]
        # An unpaired surrogate is no character and cannot be sent.
        return ident, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"line {number}: not JSON: {error}") from None
    except (TypeError, KeyError, AttributeError):
        raise InvalidArgument(f'line {number}: must be an object {{"id", "text"}}') from None


_JSONL = flag("--jsonl", 'read {"id", "text"} on each line, and print JSON')
COMMAND = Command(
    EXAMPLES,
    services=("agent",),
    actions=(
        action(_classify, _JSONL),
        action(_scan, _JSONL, flag("--strict", "use the strict rules for memory entries")),
    ),
)
