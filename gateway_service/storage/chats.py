"""Chats: which session their messages go to, and what those do to the work in progress."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.messages import BusyMode
from gateway_service.storage.schema import chat_busy_mode, chat_session
from services.database import Prepared, insert_ignore, upsert

_PUT = upsert(
    chat_session, ("profile", "session_key"), ("session_id", "updated_at", "last_used_at")
)
_OF_CHAT = (
    chat_busy_mode.c.profile == bindparam("of_profile"),
    chat_busy_mode.c.session_key == bindparam("of_key"),
)
_BUSY = Prepared(sa.select(chat_busy_mode.c.mode).where(*_OF_CHAT))
_CHOOSE_BUSY = upsert(chat_busy_mode, ("profile", "session_key"), ("mode", "chosen_at"))
_INHERIT_BUSY = insert_ignore(chat_busy_mode)


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


def busy_mode(conn: Connection, profile: str, session_key: str) -> BusyMode | None:
    """What a chat has chosen that its messages do to the work in progress, if it has."""
    row = _BUSY.rows(conn, {"of_profile": profile, "of_key": session_key}).one_or_none()
    return None if row is None else BusyMode(row.mode)


def choose_busy_mode(
    conn: Connection, profile: str, session_key: str, mode: BusyMode | None, now: datetime
) -> None:
    """Choose for a chat; None is what is configured."""
    if mode is None:
        conn.execute(
            sa.delete(chat_busy_mode).where(*_OF_CHAT),
            {"of_profile": profile, "of_key": session_key},
        )
    else:
        conn.execute(_CHOOSE_BUSY, _busy_row(profile, session_key, mode, now))


def inherit_busy_mode(
    conn: Connection, profile: str, session_key: str, of_key: str, now: datetime
) -> None:
    """Let a chat that has chosen nothing have what another one has chosen."""
    mode = busy_mode(conn, profile, of_key)
    if mode is not None:
        conn.execute(_INHERIT_BUSY, _busy_row(profile, session_key, mode, now))


def _busy_row(profile: str, session_key: str, mode: BusyMode, now: datetime) -> dict[str, object]:
    return {"profile": profile, "session_key": session_key, "mode": mode.value, "chosen_at": now}
