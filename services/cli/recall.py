"""What was said last in a session that goes on, so that one knows where one was."""

import grpc
import grpc.aio
from rich.console import Console

from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.cli.console import printable

_EXCHANGES = 2
_MESSAGES = 100
"""The last ones, among which the exchanges are looked for; tools may have said much between."""
_LINES = 10
"""Shown of a message."""


async def recall(agent: grpc.aio.Channel, session_id: str, profile: str, console: Console) -> None:
    """Show the last exchanges of a session; nothing if it is new."""
    messages = await _last_messages(SessionServiceStub(agent), session_id, profile)
    spoken = [message for message in messages if message.role != session_pb2.ROLE_TOOL]
    asked = [n for n, message in enumerate(spoken) if message.role == session_pb2.ROLE_USER]
    for message in spoken[asked[-_EXCHANGES:][0] :] if asked else ():
        is_user = message.role == session_pb2.ROLE_USER
        for line in _shown(message.text):
            console.print(
                f"> {line}" if is_user else line, style="dim", markup=False, highlight=False
            )


async def _last_messages(
    stub: SessionServiceStub, session_id: str, profile: str
) -> list[session_pb2.Message]:
    try:
        found = await stub.GetSession(
            session_pb2.GetSessionRequest(session_id=session_id, profile=profile)
        )
        page = await stub.ListMessages(
            session_pb2.ListMessagesRequest(
                session_id=session_id,
                profile=profile,
                after_sequence=max(0, found.session.message_count - _MESSAGES),
                page_size=_MESSAGES,
            )
        )
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return []
        raise
    return list(page.messages)


def _shown(text: str) -> list[str]:
    lines = printable(text).strip().splitlines()
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "…"]
