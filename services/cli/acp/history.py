"""The messages of a session that an editor loads."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import acp
import grpc.aio

from hermes.agent.v1.session_pb2 import ROLE_ASSISTANT, ROLE_TOOL, ROLE_USER, Message, Session
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from hermes.agent.v1.turn_event_pb2 import ToolFinished, ToolStarted
from services.cli.acp.updates import OUTPUT_CHARS, Folder, answer, end_of, plan, start_of, thought
from services.cli.chat.tool_view import arguments_of
from services.cli.sessions.messages import all_messages


async def history(
    agent: grpc.aio.Channel, session: Session, profile: str, folder: Folder, live_turn: str
) -> AsyncGenerator[Any]:
    """Yield the updates that show all messages, but for what the live turn tells by its events."""
    calls: dict[str, ToolStarted] = {}
    read = all_messages(SessionServiceStub(agent), session.session_id, profile)
    async with aclosing(read) as messages:
        async for message in messages:
            if message.turn_id != live_turn or message.role == ROLE_USER:
                for update in _shown(message, calls, folder):
                    yield update


def _shown(message: Message, calls: dict[str, ToolStarted], folder: Folder) -> Iterator[Any]:
    if message.role == ROLE_USER and message.text:
        yield acp.update_user_message_text(message.text)
    elif message.role == ROLE_ASSISTANT:
        yield from thought(message.reasoning)
        yield from answer(message.text)
        for call in message.tool_calls:
            # Models may use an id again in a later step.
            started = ToolStarted(
                call_id=f"{message.sequence}:{call.call_id}",
                name=call.name,
                arguments_json=call.arguments_json,
            )
            calls[call.call_id] = started
            if call.name != "todo":
                yield start_of(started, folder)
    elif message.role == ROLE_TOOL and (begun := calls.pop(message.tool_call_id, None)):
        if begun.name == "todo":
            yield from plan(message.text)
            return
        preview = message.text[:OUTPUT_CHARS]
        finished = ToolFinished(call_id=begun.call_id, name=begun.name, preview=preview)
        yield end_of(finished, arguments_of(begun.arguments_json), folder)
