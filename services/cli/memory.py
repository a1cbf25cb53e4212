"""See what is remembered across sessions, how it came to be, and take changes back."""

import argparse
import asyncio
import difflib
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import memory_pb2
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from services.cli.arguments import INT32, Actions, up_to
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.config import Settings

EXAMPLES = """\
examples:
  hermes memory show
  hermes memory show --json
  hermes memory history --limit 5
  hermes memory undo chg_06gzq0v2k5t1v9d3c4m8h7w2a0"""

_NAMES = {
    memory_pb2.MEMORY_TARGET_MEMORY: "memory",
    memory_pb2.MEMORY_TARGET_USER: "user",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes memory`."""
    actions = Actions(parser, "show|history|undo")
    show = actions.add("show", "what is remembered now")
    show.add_argument("--json", action="store_true", help="one JSON object")
    history = actions.add("history", "what was changed, the last change first")
    history.add_argument(
        "--limit", type=up_to(INT32), default=20, metavar="N", help="how many (20)"
    )
    history.add_argument("--json", action="store_true", help="one JSON list")
    undo = actions.add("undo", "take a change back, if nothing was changed since")
    undo.add_argument("change_id", metavar="ID", help="the change, as history shows it")
    undo.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Shows, lists or takes back."""
    settings = load(arguments)
    settings.home.create()
    actions = {"show": _show, "history": _history, "undo": _undo}
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(actions[arguments.action](settings, arguments))
    return 0


async def _show(settings: Settings, arguments: argparse.Namespace) -> None:
    request = memory_pb2.GetMemoryRequest(profile=arguments.profile or "")
    async with connected(settings, ("agent",)) as channels:
        answer = await MemoryServiceStub(channels.to("agent")).GetMemory(request)
    if arguments.json:
        print_json({_NAMES[memory.target]: _described(memory) for memory in answer.memories})
        return
    for memory in answer.memories:
        _say(memory)


async def _history(settings: Settings, arguments: argparse.Namespace) -> None:
    request = memory_pb2.ListMemoryChangesRequest(
        profile=arguments.profile or "", page_size=arguments.limit
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await MemoryServiceStub(channels.to("agent")).ListMemoryChanges(request)
    if arguments.json:
        print_json([_change(change) for change in answer.changes])
        return
    if not answer.changes:
        say("Nothing was changed yet.")
    for change in answer.changes:
        where = f", turn {change.turn_id}" if change.turn_id else ""
        say(f"── {change.change_id}  {_local(change.create_time)}")
        say(f"{_NAMES[change.target]}, by {change.changed_by}{where}")
        for line in _difference(change):
            say(printable(line))


async def _undo(settings: Settings, arguments: argparse.Namespace) -> None:
    request = memory_pb2.UndoMemoryChangeRequest(
        profile=arguments.profile or "", change_id=arguments.change_id
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await MemoryServiceStub(channels.to("agent")).UndoMemoryChange(request)
    if arguments.json:
        print_json({_NAMES[answer.memory.target]: _described(answer.memory)})
    else:
        _say(answer.memory)


def _say(memory: memory_pb2.Memory) -> None:
    by_hand = ", edited by hand: entries can only be added" if memory.drifted else ""
    used = f"{memory.char_count} of {memory.char_limit} characters"
    say(f"── {_NAMES[memory.target]}  {used}{by_hand}")
    for entry in memory.entries:
        say(printable(f"• {entry}"))
    if not memory.entries:
        say("Nothing yet.")


def _difference(change: memory_pb2.MemoryChange) -> list[str]:
    before, after = change.before.splitlines(), change.after.splitlines()
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _described(memory: memory_pb2.Memory) -> dict[str, Any]:
    return {
        "entries": list(memory.entries),
        "char_count": memory.char_count,
        "char_limit": memory.char_limit,
        "version": memory.version,
        "drifted": memory.drifted,
    }


def _change(change: memory_pb2.MemoryChange) -> dict[str, Any]:
    return {
        "change_id": change.change_id,
        "target": _NAMES[change.target],
        "changed_by": change.changed_by,
        "turn_id": change.turn_id,
        "created_at": change.create_time.ToJsonString(),
        "before": change.before,
        "after": change.after,
    }


def _local(moment: Timestamp) -> str:
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M:%S}"
