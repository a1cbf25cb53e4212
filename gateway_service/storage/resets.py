"""Chats that go on in a new session: which are due, and what is still to be done for them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from gateway_service.storage.inbox import State
from gateway_service.storage.schema import chat_session, inbox, session_reset
from services.database import Prepared, UtcTime


class Due(Struct, frozen=True):
    """A chat whose session ends."""

    session_key: str
    session_id: str
    last_used: datetime


BEGINNING = Due("", "", datetime.fromtimestamp(0, UTC))
"""Before all others."""


class Reset(Struct, frozen=True):
    """A chat that has gone on in a new session."""

    new_session_id: str
    old_session_id: str
    session_key: str
    profile: str
    why: str
    review_id: str
    """Of the turn in which the agent looks back at the old one."""


_row = chat_session.c
_of_chat = (_row.profile == bindparam("of_profile"), _row.session_key == bindparam("of_key"))
_USED = sa.select(_row.session_id, _row.last_used_at).where(*_of_chat)
_DUE = (
    sa.select(_row.session_key, _row.session_id, _row.last_used_at)
    .where(
        _row.profile == bindparam("of_profile"),
        _row.session_key.startswith(bindparam("beginning"), autoescape=False),
        _row.last_used_at < bindparam("cutoff", type_=UtcTime()),
        _row.last_used_at >= bindparam("after", type_=UtcTime()),
        sa.or_(
            _row.last_used_at > bindparam("after", type_=UtcTime()),
            _row.session_key > bindparam("after_key"),
        ),
    )
    .order_by(_row.last_used_at, _row.session_key)
    .limit(bindparam("most"))
)
_TOUCH = Prepared(
    sa.update(chat_session).where(*_of_chat).values(last_used_at=bindparam("now", type_=UtcTime()))
)
_ANSWERED = Prepared(
    sa.update(chat_session)
    .where(
        _row.profile == bindparam("of_profile"),
        _row.session_id == bindparam("of_session"),
        _row.last_used_at.is_not(None),
    )
    .values(last_used_at=bindparam("now", type_=UtcTime()))
)
_EMPTY = (
    sa.update(chat_session)
    .where(
        *_of_chat,
        _row.session_id == bindparam("old_id"),
        _row.last_used_at == bindparam("seen", type_=UtcTime()),
    )
    .values(last_used_at=None)
)
_MOVE = _EMPTY.values(session_id=bindparam("new_id"), updated_at=bindparam("now", type_=UtcTime()))
_OPEN = sa.select(inbox.c.sequence).where(
    inbox.c.session_key == bindparam("of_key"),
    inbox.c.profile == bindparam("of_profile"),
    inbox.c.state.in_((State.RECEIVED, State.ACCEPTED)),
)
_ANSWERING = _OPEN.where(inbox.c.state == State.ACCEPTED)
_INSERT = sa.insert(session_reset)
_BY_NEW = Prepared(
    sa.select(session_reset).where(
        session_reset.c.new_session_id == bindparam("new_id"), ~session_reset.c.is_told
    )
)
_OF_NEW = sa.update(session_reset).where(session_reset.c.new_session_id == bindparam("of_new"))
_TOLD = _OF_NEW.values(is_told=True)
_ASKED = _OF_NEW.values(is_review_asked=True)
_UNASKED = (
    sa.select(session_reset)
    .where(
        ~session_reset.c.is_review_asked,
        session_reset.c.profile == bindparam("of_profile"),
        session_reset.c.session_key.startswith(bindparam("beginning"), autoescape=False),
    )
    .order_by(session_reset.c.reset_at)
    .limit(bindparam("most"))
)
_FORGET = sa.delete(session_reset).where(
    session_reset.c.is_told,
    session_reset.c.is_review_asked,
    session_reset.c.reset_at < bindparam("before", type_=UtcTime()),
)


def beginning_of(platform: str) -> str:
    """How the keys of a platform's chats begin."""
    return f"agent:main:{platform}:"


def due(
    conn: Connection, profile: str, platform: str, cutoff: datetime, most: int, after: Due
) -> list[Due]:
    """Chats after one that were last used before a time, the one that is quiet longest first."""
    asked = {"of_profile": profile, "beginning": beginning_of(platform), "cutoff": cutoff}
    asked |= {"most": most, "after": after.last_used, "after_key": after.session_key}
    return [Due(*row) for row in conn.execute(_DUE, asked)]


def used(conn: Connection, profile: str, session_key: str) -> Due | None:
    """The chat as it was last used; None where there is nothing that could end."""
    row = conn.execute(_USED, {"of_profile": profile, "of_key": session_key}).one_or_none()
    if row is None or row.last_used_at is None:
        return None
    return Due(session_key, row.session_id, row.last_used_at)


def touch(conn: Connection, profile: str, session_key: str, now: datetime) -> None:
    """A message has come in a chat."""
    _TOUCH.run(conn, {"of_profile": profile, "of_key": session_key, "now": now})


def answered(conn: Connection, profile: str, session_id: str, now: datetime) -> None:
    """A message of a session was answered."""
    _ANSWERED.run(conn, {"of_profile": profile, "of_session": session_id, "now": now})


def is_open(conn: Connection, profile: str, session_key: str, *, received: bool) -> bool:
    """Whether a message of a chat is being answered, or was only received, if that counts."""
    query = _OPEN if received else _ANSWERING
    found = conn.execute(query.limit(1), {"of_profile": profile, "of_key": session_key})
    return found.first() is not None


def move(
    conn: Connection, reset: Reset, seen: datetime, now: datetime, *, is_review_asked: bool
) -> bool:
    """Let a chat go on in its new session; False where it was used meanwhile."""
    moved = {
        "of_profile": reset.profile,
        "of_key": reset.session_key,
        "old_id": reset.old_session_id,
        "new_id": reset.new_session_id,
        "seen": seen,
        "now": now,
    }
    if not conn.execute(_MOVE, moved).rowcount:
        return False
    row: dict[str, Any] = {name: getattr(reset, name) for name in reset.__struct_fields__}
    row |= {"reset_at": now, "is_review_asked": is_review_asked, "is_told": False}
    conn.execute(_INSERT, row)
    return True


def is_empty(conn: Connection, profile: str, found: Due) -> None:
    """There is nothing in a chat's session that could end."""
    moved = {
        "of_profile": profile,
        "of_key": found.session_key,
        "old_id": found.session_id,
        "seen": found.last_used,
    }
    conn.execute(_EMPTY, moved)


def untold(conn: Connection, session_id: str) -> Reset | None:
    """What its person is still to be told of the beginning of a session."""
    row = _BY_NEW.rows(conn, {"new_id": session_id}).one_or_none()
    return None if row is None else _reset(row)


def told(conn: Connection, new_session_id: str) -> None:
    """Its person is told."""
    conn.execute(_TOLD, {"of_new": new_session_id})


def unasked(conn: Connection, profile: str, platform: str, most: int) -> Sequence[Reset]:
    """Those for whose old sessions the agent could not be asked yet."""
    asked = {"of_profile": profile, "beginning": beginning_of(platform), "most": most}
    return [_reset(row) for row in conn.execute(_UNASKED, asked)]


def asked(conn: Connection, new_session_id: str) -> None:
    """The agent was asked."""
    conn.execute(_ASKED, {"of_new": new_session_id})


def forget(conn: Connection, before: datetime) -> None:
    """Delete what was done before a time."""
    conn.execute(_FORGET, {"before": before})


def _reset(row: sa.Row[Any]) -> Reset:
    return Reset(**{name: getattr(row, name) for name in Reset.__struct_fields__})
