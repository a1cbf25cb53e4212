"""Chats: which session their messages go to, and what those do to the work in progress."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.messages import BusyMode
from gateway_service.storage.schema import chat_session
from services.database import Prepared, insert_ignore, upsert

_PUT = upsert(
    chat_session,
    ("profile", "session_key"),
    ("session_id", "updated_at", "last_used_at", "ended_session_id", "ended_why"),
)
_ADD = insert_ignore(chat_session)
_BUSY = Prepared(
    sa.select(chat_session.c.busy_mode).where(
        chat_session.c.profile == bindparam("of_profile"),
        chat_session.c.session_key == bindparam("of_key"),
    )
)


def session_of(conn: Connection, profile: str, session_key: str) -> str | None:
    """The chat's session, if it has one."""
    query = sa.select(chat_session.c.session_id).filter_by(profile=profile, session_key=session_key)
    return conn.execute(query).scalar_one_or_none()


def is_known(conn: Connection, profile: str, session_id: str) -> bool:
    """Whether the session was given to a chat of this profile."""
    query = sa.select(chat_session).filter_by(profile=profile, session_id=session_id)
    return conn.execute(query).first() is not None


def put(conn: Connection, profile: str, session_key: str, session_id: str, now: datetime) -> None:
    """Send the chat's messages to this session from now on."""
    used = {"last_used_at": now, "ended_session_id": None, "ended_why": None}
    conn.execute(_PUT, _row(profile, session_key, session_id, now) | used)


def busy_mode(conn: Connection, profile: str, session_key: str) -> BusyMode | None:
    """What a chat has chosen that its messages do to the work in progress, if it has."""
    row = _BUSY.rows(conn, {"of_profile": profile, "of_key": session_key}).one_or_none()
    return BusyMode(row.busy_mode) if row is not None and row.busy_mode else None


def choose_busy_mode(
    conn: Connection,
    profile: str,
    session_key: str,
    session_id: str,
    mode: BusyMode | None,
    now: datetime,
) -> None:
    """Choose for a chat, which has this session if it had none; None is what is configured."""
    conn.execute(_ADD, _row(profile, session_key, session_id, now))
    chat = sa.update(chat_session).filter_by(profile=profile, session_key=session_key)
    conn.execute(chat.values(busy_mode=mode))


def _row(profile: str, session_key: str, session_id: str, now: datetime) -> dict[str, object]:
    chat = {"profile": profile, "session_key": session_key, "session_id": session_id}
    return {**chat, "created_at": now, "updated_at": now}
