"""The agent's sessions, as they are listed, found and named."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf, of_agent
from gateway_service.errors import AgentRefused
from hermes.agent.v1 import session_pb2, session_pb2_grpc
from services.errors import Reason


class SessionLine(Struct, frozen=True):
    """A session in a list."""

    session_id: str
    title: str
    platform: str
    message_count: int
    used_at: datetime
    model: str = ""


class Found(Struct, frozen=True):
    """A message that has the words that were looked for."""

    session_id: str
    title: str
    excerpt: str
    written_at: datetime


class SessionsClient:
    """Lists, searches and names sessions."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> session_pb2_grpc.SessionServiceStub:
        return session_pb2_grpc.SessionServiceStub(self._channel_of("agent"))

    async def get(self, session_id: str, profile: str) -> SessionLine | None:
        """A session by its id."""
        request = session_pb2.GetSessionRequest(session_id=session_id, profile=profile)
        try:
            return _line((await of_agent(self._stub.GetSession(request))).session)
        except AgentRefused as error:
            if error.reason is Reason.NOT_FOUND:
                return None
            raise

    async def latest(self, profile: str, most: int, title: str = "") -> Sequence[SessionLine]:
        """The sessions used last, of a title if one is given, else those that somebody talks in."""
        request = session_pb2.ListSessionsRequest(
            profile=profile, page_size=most, title=title, without_jobs=not title
        )
        found = await of_agent(self._stub.ListSessions(request))
        return [_line(session) for session in found.sessions]

    async def search(self, profile: str, words: str, most: int) -> Sequence[Found]:
        """Messages that have the words, the newest first."""
        request = session_pb2.SearchMessagesRequest(profile=profile, query=words, page_size=most)
        found = await of_agent(self._stub.SearchMessages(request))
        return [
            Found(hit.session_id, hit.title, hit.excerpt, hit.create_time.ToDatetime(UTC))
            for hit in found.hits
        ]

    async def rename(self, session_id: str, profile: str, title: str) -> str:
        """Give a session a title; returns it as it is now."""
        request = session_pb2.RenameSessionRequest(
            session_id=session_id, profile=profile, title=title
        )
        return (await of_agent(self._stub.RenameSession(request))).session.title


def _line(session: session_pb2.Session) -> SessionLine:
    return SessionLine(
        session.session_id,
        session.title,
        session.platform,
        session.message_count,
        session.update_time.ToDatetime(UTC),
        session.model,
    )
