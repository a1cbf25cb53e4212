"""SessionService."""

from datetime import UTC, datetime
from typing import Any

import grpc.aio

from agent_service.convert import sessions as convert
from agent_service.convert.common import profile_of
from agent_service.storage import sessions as storage
from hermes.agent.v1 import session_pb2, session_pb2_grpc
from services.database import Database
from services.errors import InvalidArgument
from services.validation import page_size

Context = grpc.aio.ServicerContext[Any, Any]

_SESSIONS_A_PAGE = 50
_MESSAGES_A_PAGE = 100


class SessionServicer(session_pb2_grpc.SessionServiceServicer):
    """Serves sessions, which are read straight from the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def GetSession(
        self, request: session_pb2.GetSessionRequest, context: Context
    ) -> session_pb2.GetSessionResponse:
        """Returns a session."""
        profile = profile_of(request.profile)
        info = await self._database.read(
            lambda conn: storage.get(conn, request.session_id, profile)
        )
        return session_pb2.GetSessionResponse(session=convert.session(info))

    async def ListSessions(
        self, request: session_pb2.ListSessionsRequest, context: Context
    ) -> session_pb2.ListSessionsResponse:
        """Lists sessions, the one used last first."""
        size = page_size(request.page_size, _SESSIONS_A_PAGE)
        before = _parse(request.page_token) if request.page_token else None
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.list_by_use(conn, profile, request.platform, before, size + 1)
        )
        page = found[:size]
        return session_pb2.ListSessionsResponse(
            sessions=[convert.session(info) for info in page],
            next_page_token=_token(page[-1]) if len(found) > size else "",
        )

    async def ListMessages(
        self, request: session_pb2.ListMessagesRequest, context: Context
    ) -> session_pb2.ListMessagesResponse:
        """Lists a session's messages in order."""
        size = page_size(request.page_size, _MESSAGES_A_PAGE)
        profile = profile_of(request.profile)
        found = await self._database.read(
            lambda conn: storage.messages(
                conn, request.session_id, profile, request.after_sequence, size + 1
            )
        )
        return session_pb2.ListMessagesResponse(
            messages=[convert.message(stored) for stored in found[:size]],
            has_more=len(found) > size,
        )


def _token(last: storage.SessionInfo) -> str:
    return f"{last.updated_at.timestamp():.6f} {last.id}"


def _parse(token: str) -> tuple[datetime, str]:
    moment, _, session_id = token.partition(" ")
    try:
        return datetime.fromtimestamp(float(moment), UTC), session_id
    except (ValueError, OverflowError):
        raise InvalidArgument("not a page token", fields={"page_token": "as it was sent"}) from None
