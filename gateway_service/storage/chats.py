"""Chats in the database: their sessions, busy modes, and sessions that have ended."""

import hashlib
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from gateway_service.messages import BusyMode
from gateway_service.storage.inbox import State
from gateway_service.storage.schema import chat_session, inbox
from services.database import Prepared, UtcTime, insert_ignore, upsert


class Due(Struct, frozen=True):
    """A chat whose session is due to end."""

    session_key: str
    session_id: str
    last_used: datetime


class Reset(Struct, frozen=True):
    """A chat that continues in a new session."""

    new_session_id: str
    old_session_id: str
    session_key: str
    profile: str
    why: str

    @property
    def review_id(self) -> str:
        """Return the id of the review's turn, the same on every attempt."""
        return f"trn_{hashlib.sha256(self.new_session_id.encode()).hexdigest()[:26]}"


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
_row = chat_session.c
_TOUCH = Prepared(
    sa.update(chat_session)
    .where(_row.profile == bindparam("of_profile"), _row.session_key == bindparam("of_key"))
    .values(last_used_at=bindparam("now", type_=UtcTime()))
)
_TOUCH_SESSION = Prepared(
    sa.update(chat_session)
    .where(
        _row.profile == bindparam("of_profile"),
        _row.session_id == bindparam("of_session"),
        _row.last_used_at.is_not(None),
    )
    .values(last_used_at=bindparam("now", type_=UtcTime()))
)
_UNANNOUNCED = Prepared(
    sa.select(chat_session).where(
        _row.profile == bindparam("of_profile"),
        _row.session_key == bindparam("of_key"),
        _row.ended_why.is_not(None),
    )
)


def session_of(conn: Connection, profile: str, session_key: str) -> str | None:
    """Return the chat's session, if it has one."""
    query = sa.select(chat_session.c.session_id).filter_by(profile=profile, session_key=session_key)
    return conn.execute(query).scalar_one_or_none()


def is_known(conn: Connection, profile: str, session_id: str) -> bool:
    """Return whether the session was given to a chat of this profile."""
    query = sa.select(chat_session).filter_by(profile=profile, session_id=session_id)
    return conn.execute(query).first() is not None


def forget(conn: Connection, profile: str, session_key: str) -> None:
    """Forget which session a chat's messages go to."""
    conn.execute(
        sa.delete(chat_session).where(_row.profile == profile, _row.session_key == session_key)
    )


def put(conn: Connection, profile: str, session_key: str, session_id: str, now: datetime) -> None:
    """Direct the chat's messages to this session."""
    used = {"last_used_at": now, "ended_session_id": None, "ended_why": None}
    conn.execute(_PUT, _values(profile, session_key, session_id, now) | used)


def busy_mode(conn: Connection, profile: str, session_key: str) -> BusyMode | None:
    """Return the chat's chosen busy mode, if any."""
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
    """Set a chat's busy mode, and its session if it has none; None means the configured mode."""
    conn.execute(_ADD, _values(profile, session_key, session_id, now))
    chat = sa.update(chat_session).filter_by(profile=profile, session_key=session_key)
    conn.execute(chat.values(busy_mode=mode))


def list_due(conn: Connection, profile: str, platform: str, cutoff: datetime) -> list[Due]:
    """Return the chats that were last used before a time, the oldest first."""
    query = sa.select(_row.session_key, _row.session_id, _row.last_used_at).where(
        _row.profile == profile,
        _row.session_key.startswith(_key_prefix(platform)),
        _row.last_used_at < cutoff,
    )
    return [Due(*row) for row in conn.execute(query.order_by(_row.last_used_at))]


def find_last_use(conn: Connection, profile: str, session_key: str) -> Due | None:
    """Return when a chat was last used; None if its session has nothing that could end."""
    query = sa.select(chat_session).filter_by(profile=profile, session_key=session_key)
    row = conn.execute(query).one_or_none()
    if row is None or row.last_used_at is None:
        return None
    return Due(session_key, row.session_id, row.last_used_at)


def touch(conn: Connection, profile: str, session_key: str, now: datetime) -> None:
    """Note that a message arrived in a chat."""
    _TOUCH.run(conn, {"of_profile": profile, "of_key": session_key, "now": now})


def touch_session(conn: Connection, profile: str, session_id: str, now: datetime) -> None:
    """Note that a message of a session was answered."""
    _TOUCH_SESSION.run(conn, {"of_profile": profile, "of_session": session_id, "now": now})


def is_open(conn: Connection, profile: str, session_key: str, *, received: bool) -> bool:
    """Return whether a chat's message is being answered; with `received`, or waits."""
    states = (State.RECEIVED, State.ACCEPTED) if received else (State.ACCEPTED,)
    of_chat = (inbox.c.session_key == session_key, inbox.c.profile == profile)
    query = sa.select(inbox.c.sequence).where(*of_chat, inbox.c.state.in_(states)).limit(1)
    return conn.execute(query).first() is not None


def move(conn: Connection, reset: Reset, seen: datetime, now: datetime) -> bool:
    """Move a chat to its new session; False if the chat was used meanwhile."""
    old = Due(reset.session_key, reset.old_session_id, seen)
    moved = _clear(reset.profile, old).values(
        session_id=reset.new_session_id,
        updated_at=now,
        ended_session_id=reset.old_session_id,
        ended_why=reset.why,
        is_review_asked=False,
    )
    return conn.execute(moved).rowcount == 1


def clear_last_use(conn: Connection, profile: str, found: Due) -> None:
    """Note that a chat's session has nothing that could end."""
    conn.execute(_clear(profile, found))


def find_unannounced(conn: Connection, profile: str, session_key: str) -> Reset | None:
    """Return a reset that its person was not told about yet, if there is one."""
    row = _UNANNOUNCED.rows(conn, {"of_profile": profile, "of_key": session_key}).one_or_none()
    return None if row is None else _reset(row)


def list_unreviewed(conn: Connection, profile: str, platform: str) -> list[Reset]:
    """Return the resets whose old sessions the agent was not asked to review yet."""
    query = sa.select(chat_session).where(
        _row.profile == profile,
        _row.session_key.startswith(_key_prefix(platform)),
        _row.ended_session_id.is_not(None),
        ~_row.is_review_asked,
    )
    return [_reset(row) for row in conn.execute(query)]


def mark_announced(conn: Connection, reset: Reset) -> None:
    """Note that the person was told about a reset."""
    conn.execute(_update(reset).values(ended_why=None))


def mark_reviewed(conn: Connection, reset: Reset) -> None:
    """Note that the agent was asked for the review."""
    conn.execute(_update(reset).values(is_review_asked=True))


def _update(reset: Reset) -> sa.Update:
    return sa.update(chat_session).where(
        _row.profile == reset.profile,
        _row.session_key == reset.session_key,
        _row.ended_session_id == reset.old_session_id,
    )


def _clear(profile: str, found: Due) -> sa.Update:
    """Clear the time of a chat's last use, unless the chat was used meanwhile."""
    return (
        sa.update(chat_session)
        .where(
            _row.profile == profile,
            _row.session_key == found.session_key,
            _row.session_id == found.session_id,
            _row.last_used_at == found.last_used,
        )
        .values(last_used_at=None)
    )


def _key_prefix(platform: str) -> str:
    return f"agent:main:{platform}:"


def _reset(row: sa.Row[Any]) -> Reset:
    return Reset(
        row.session_id, row.ended_session_id, row.session_key, row.profile, row.ended_why or ""
    )


def _values(profile: str, session_key: str, session_id: str, now: datetime) -> dict[str, object]:
    chat = {"profile": profile, "session_key": session_key, "session_id": session_id}
    return {**chat, "created_at": now, "updated_at": now}
