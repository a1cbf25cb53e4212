"""Which session a chat's messages go to."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.storage.schema import chat_session
from services.database import upsert

_BY_KEY = sa.select(chat_session.c.session_id).where(
    chat_session.c.profile == bindparam("profile"),
    chat_session.c.session_key == bindparam("session_key"),
)
_IS_KNOWN = sa.select(sa.literal(1)).where(
    chat_session.c.session_id == bindparam("session_id"),
    chat_session.c.profile == bindparam("profile"),
)
_PUT = upsert(
    chat_session, ("profile", "session_key"), ("session_id", "updated_at", "last_used_at")
)


def session_of(conn: Connection, profile: str, session_key: str) -> str | None:
    """The chat's session, if it has one."""
    found = conn.execute(_BY_KEY, {"profile": profile, "session_key": session_key})
    return found.scalar_one_or_none()


def is_known(conn: Connection, profile: str, session_id: str) -> bool:
    """Whether the session was given to a chat of this profile."""
    found = conn.execute(_IS_KNOWN, {"profile": profile, "session_id": session_id})
    return found.first() is not None


def put(conn: Connection, profile: str, session_key: str, session_id: str, now: datetime) -> None:
    """Send the chat's messages to this session from now on."""
    conn.execute(
        _PUT,
        {
            "profile": profile,
            "session_key": session_key,
            "session_id": session_id,
            "created_at": now,
            "updated_at": now,
            "last_used_at": now,
        },
    )
