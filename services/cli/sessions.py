"""List, show, find, name, branch, take back, export, import and delete conversations."""

import argparse
import asyncio
from typing import Any

from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.cli import session_changes, session_files, session_search
from services.cli.arguments import INT32, Actions, up_to
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.session_desk import ROLES, Action, Desk, described, local
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings

EXAMPLES = """\
examples:
  hermes sessions list
  hermes sessions list --limit 5 --json
  hermes sessions show 20261121_101500_a1b2c3
  hermes sessions show 20261121_101500_a1b2c3 --json
  hermes sessions search docker network
  hermes sessions search '"exit code 137"' --role tool --since 2026-10-01
  hermes sessions search invoice OR receipt --sort relevance --json
  hermes sessions search --session 20261121_101500_a1b2c3 --around 12
  hermes sessions rename 20261121_101500_a1b2c3 "holiday plans"
  hermes sessions branch 20261121_101500_a1b2c3 --through 8
  hermes sessions undo 20261121_101500_a1b2c3 --turns 2
  hermes sessions export 20261121_101500_a1b2c3 > session.json
  hermes sessions export --all --to sessions-backup
  hermes sessions import old-home/sessions
  hermes sessions delete 20261121_101500_a1b2c3 --yes
  hermes sessions prune --unused-for 90d --dry-run

A session is named by its id or its title."""


NAMES = (
    *("list", "show", "search", "rename", "branch", "undo"),
    *("export", "import", "delete", "prune"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes sessions`."""
    actions = Actions(parser, "|".join(NAMES))
    listing = actions.add("list", "the conversations, the one used last first")
    listing.add_argument(
        "--limit", type=up_to(INT32), default=20, metavar="N", help="how many (20)"
    )
    listing.add_argument("--json", action="store_true", help="one JSON list")
    show = actions.add("show", "what was said in one of them")
    show.add_argument("session", metavar="SESSION", help="its id or title")
    show.add_argument("--json", action="store_true", help="one JSON object")
    session_search.add_arguments(actions)
    session_changes.add_arguments(actions)
    session_files.add_arguments(actions)


def run(arguments: argparse.Namespace) -> int:
    """Lists, shows or changes."""
    settings = load(arguments)
    settings.home.create()
    actions = {
        "list": _list,
        "show": _show,
        **session_search.ACTIONS,
        **session_changes.ACTIONS,
        **session_files.ACTIONS,
    }
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(_acted(settings, arguments, actions[arguments.action]))


async def _acted(settings: Settings, arguments: argparse.Namespace, action: Action) -> int:
    async with connected(settings, ("agent",)) as channels:
        profile = arguments.profile or ""
        return await action(Desk(SessionServiceStub(channels.to("agent")), profile, arguments))


async def _list(desk: Desk) -> int:
    answer = await desk.stub.ListSessions(
        session_pb2.ListSessionsRequest(profile=desk.profile, page_size=desk.arguments.limit)
    )
    if desk.arguments.json:
        print_json([described(session) for session in answer.sessions])
    elif answer.sessions:
        print_table(
            ("session", "used", "from", "messages", "title"),
            [
                (
                    session.session_id,
                    f"{local(session.update_time):%Y-%m-%d %H:%M}",
                    session.platform,
                    str(session.message_count),
                    printable(session.title),
                )
                for session in answer.sessions
            ],
        )
    else:
        say("There are no sessions yet; hermes chat begins one.")
    return 0


async def _show(desk: Desk) -> int:
    found = await desk.find(desk.arguments.session)
    messages: list[session_pb2.Message] = []
    has_more = True
    while has_more:
        page = await desk.stub.ListMessages(
            session_pb2.ListMessagesRequest(
                session_id=found.session_id,
                profile=desk.profile,
                after_sequence=messages[-1].sequence if messages else 0,
                page_size=1000,
            )
        )
        messages += page.messages
        has_more = page.has_more
    if desk.arguments.json:
        shown = [_message(message) for message in messages]
        print_json({**described(found), "messages": shown})
        return 0
    for message in messages:
        head = f"── {message.sequence} {ROLES[message.role]}"
        say(f"{head}  {local(message.create_time):%Y-%m-%d %H:%M:%S}")
        if message.text:
            say(printable(message.text))
        for call in message.tool_calls:
            say(printable(f"▸ {call.name}  {call.arguments_json}"))
    return 0


def _message(message: session_pb2.Message) -> dict[str, Any]:
    described: dict[str, Any] = {
        "sequence": message.sequence,
        "role": ROLES[message.role],
        "content": message.text,
        "timestamp": message.create_time.ToJsonString(),
        "turn_id": message.turn_id,
    }
    if message.reasoning:
        described["reasoning"] = message.reasoning
    if message.tool_call_id:
        described["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        described["tool_calls"] = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments_json}
            for call in message.tool_calls
        ]
    return described
