"""What the actions of `hermes sessions` share."""

import argparse
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from hermes.agent.v1 import session_pb2
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.errors import NotFound

ROLES = {
    session_pb2.ROLE_USER: "user",
    session_pb2.ROLE_ASSISTANT: "assistant",
    session_pb2.ROLE_TOOL: "tool",
}


class Desk(Struct, frozen=True):
    """Where an action finds sessions, and what it was told."""

    stub: SessionServiceStub
    profile: str
    arguments: argparse.Namespace

    async def find(self, named: str) -> session_pb2.Session:
        """The session of an id, or the one used last of a title; NotFound where there is none."""
        request = session_pb2.GetSessionRequest(session_id=named, profile=self.profile)
        try:
            return (await self.stub.GetSession(request)).session
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        titled = session_pb2.ListSessionsRequest(profile=self.profile, page_size=1, title=named)
        found = (await self.stub.ListSessions(titled)).sessions
        if not found:
            raise NotFound(f"there is no session {named!r}; hermes sessions list shows them")
        return found[0]


Action: TypeAlias = Callable[[Desk], Awaitable[int]]


def described(session: session_pb2.Session) -> dict[str, Any]:
    """A session as JSON."""
    return {
        "session_id": session.session_id,
        "title": session.title,
        "is_named": session.is_named,
        "parent_session_id": session.parent_session_id or None,
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


def local(moment: Timestamp) -> datetime:
    """A time as the person at the terminal counts it."""
    return moment.ToDatetime(UTC).astimezone()
