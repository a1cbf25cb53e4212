"""Reads the messages of sessions."""

from collections.abc import AsyncGenerator, Sequence

from hermes.agent.v1.session_pb2 import ListMessagesRequest, Message, Session
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub

LAST = 100
"""How many last messages are read together: tools may have said much between."""
_PAGE = 1000


async def all_messages(
    stub: SessionServiceStub, session_id: str, profile: str
) -> AsyncGenerator[Message]:
    """Yield the messages of a session."""
    request = ListMessagesRequest(session_id=session_id, profile=profile, page_size=_PAGE)
    has_more = True
    while has_more:
        page = await stub.ListMessages(request)
        for message in page.messages:
            yield message
            request.after_sequence = message.sequence
        has_more = page.has_more


async def last_messages(
    stub: SessionServiceStub, session: Session, profile: str
) -> Sequence[Message]:
    """Return the last messages of a session."""
    request = ListMessagesRequest(
        session_id=session.session_id,
        profile=profile,
        after_sequence=max(0, session.message_count - LAST),
        page_size=LAST,
    )
    return (await stub.ListMessages(request)).messages
