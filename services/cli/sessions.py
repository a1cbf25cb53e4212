"""List conversations, and show what was said."""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings

EXAMPLES = """\
examples:
  hermes sessions list
  hermes sessions list --limit 5 --json
  hermes sessions show 20261121_101500_a1b2c3
  hermes sessions show 20261121_101500_a1b2c3 --json"""

_ROLES = {
    session_pb2.ROLE_USER: "user",
    session_pb2.ROLE_ASSISTANT: "assistant",
    session_pb2.ROLE_TOOL: "tool",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes sessions`."""
    actions = Actions(parser, "list|show")
    listing = actions.add("list", "the conversations, the one used last first")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="how many (20)")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    show = actions.add("show", "what was said in one of them")
    show.add_argument("session_id", metavar="ID", help="the session, as list shows it")
    show.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Lists or shows."""
    settings = load(arguments)
    settings.home.create()
    action = _list if arguments.action == "list" else _show
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(action(settings, arguments))
    return 0


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("agent",)) as channels:
        answer = await SessionServiceStub(channels.to("agent")).ListSessions(
            session_pb2.ListSessionsRequest(
                profile=arguments.profile or "", page_size=arguments.limit
            )
        )
    if arguments.json:
        print_json([_described(session) for session in answer.sessions])
    elif answer.sessions:
        print_table(
            ("session", "used", "from", "messages", "title"),
            [
                (
                    session.session_id,
                    f"{_local(session.update_time):%Y-%m-%d %H:%M}",
                    session.platform,
                    str(session.message_count),
                    printable(session.title),
                )
                for session in answer.sessions
            ],
        )
    else:
        say("There are no sessions yet; hermes chat begins one.")


async def _show(settings: Settings, arguments: argparse.Namespace) -> None:
    profile, session_id = arguments.profile or "", arguments.session_id
    async with connected(settings, ("agent",)) as channels:
        stub = SessionServiceStub(channels.to("agent"))
        found = await stub.GetSession(
            session_pb2.GetSessionRequest(session_id=session_id, profile=profile)
        )
        messages: list[session_pb2.Message] = []
        has_more = True
        while has_more:
            page = await stub.ListMessages(
                session_pb2.ListMessagesRequest(
                    session_id=session_id,
                    profile=profile,
                    after_sequence=messages[-1].sequence if messages else 0,
                    page_size=1000,
                )
            )
            messages += page.messages
            has_more = page.has_more
    if arguments.json:
        shown = [_message(message) for message in messages]
        print_json({**_described(found.session), "messages": shown})
        return
    for message in messages:
        say(f"── {_ROLES[message.role]}  {_local(message.create_time):%Y-%m-%d %H:%M:%S}")
        if message.text:
            say(printable(message.text))
        for call in message.tool_calls:
            say(printable(f"▸ {call.name}  {call.arguments_json}"))


def _described(session: session_pb2.Session) -> dict[str, Any]:
    return {
        "session_id": session.session_id,
        "title": session.title,
        "platform": session.platform,
        "created_at": session.create_time.ToJsonString(),
        "updated_at": session.update_time.ToJsonString(),
        "message_count": session.message_count,
        "usage": {
            "prompt_tokens": session.usage.prompt_tokens,
            "completion_tokens": session.usage.completion_tokens,
            "cached_tokens": session.usage.cached_tokens,
            "cost_micro_usd": session.usage.cost_micro_usd,
        },
    }


def _message(message: session_pb2.Message) -> dict[str, Any]:
    described: dict[str, Any] = {
        "role": _ROLES[message.role],
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


def _local(moment: Timestamp) -> datetime:
    return moment.ToDatetime(UTC).astimezone()
