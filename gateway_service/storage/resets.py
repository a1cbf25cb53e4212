"""Chats that go on in a new session: which are due, and what is still to be done for them."""

import hashlib
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from gateway_service.storage.inbox import State
from gateway_service.storage.schema import chat_session, inbox
from services.database import Prepared, UtcTime


class Due(Struct, frozen=True):
    """A chat whose session ends."""

    session_key: str
    session_id: str
    last_used: datetime


class Reset(Struct, frozen=True):
    """A chat that has gone on in a new session."""

    new_session_id: str
    old_session_id: str
    session_key: str
    profile: str
    why: str

    @property
    def review_id(self) -> str:
        """The id of the turn in which the agent looks back at the old one, however often asked."""
        return f"trn_{hashlib.sha256(self.new_session_id.encode()).hexdigest()[:26]}"


_row = chat_session.c
_TOUCH = Prepared(
    sa.update(chat_session)
    .where(_row.profile == bindparam("of_profile"), _row.session_key == bindparam("of_key"))
    .values(last_used_at=bindparam("now", type_=UtcTime()))
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
_UNTOLD = Prepared(
    sa.select(chat_session).where(
        _row.profile == bindparam("of_profile"),
        _row.session_key == bindparam("of_key"),
        _row.ended_why.is_not(None),
    )
)


def due(conn: Connection, profile: str, platform: str, cutoff: datetime) -> list[Due]:
    """The chats that were last used before a time, the one that is quiet longest first."""
    query = sa.select(_row.session_key, _row.session_id, _row.last_used_at).where(
        _row.profile == profile,
        _row.session_key.startswith(_beginning_of(platform)),
        _row.last_used_at < cutoff,
    )
    return [Due(*row) for row in conn.execute(query.order_by(_row.last_used_at))]


def used(conn: Connection, profile: str, session_key: str) -> Due | None:
    """The chat as it was last used; None where there is nothing that could end."""
    query = sa.select(chat_session).filter_by(profile=profile, session_key=session_key)
    row = conn.execute(query).one_or_none()
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
    states = (State.RECEIVED, State.ACCEPTED) if received else (State.ACCEPTED,)
    of_chat = (inbox.c.session_key == session_key, inbox.c.profile == profile)
    query = sa.select(inbox.c.sequence).where(*of_chat, inbox.c.state.in_(states)).limit(1)
    return conn.execute(query).first() is not None


def move(conn: Connection, reset: Reset, seen: datetime, now: datetime) -> bool:
    """Let a chat go on in its new session; False where it was used meanwhile."""
    old = Due(reset.session_key, reset.old_session_id, seen)
    moved = _empty(reset.profile, old).values(
        session_id=reset.new_session_id,
        updated_at=now,
        ended_session_id=reset.old_session_id,
        ended_why=reset.why,
        is_review_asked=False,
    )
    return conn.execute(moved).rowcount == 1


def is_empty(conn: Connection, profile: str, found: Due) -> None:
    """There is nothing in a chat's session that could end."""
    conn.execute(_empty(profile, found))


def untold(conn: Connection, profile: str, session_key: str) -> Reset | None:
    """What its person is still to be told of the beginning of a chat's session."""
    row = _UNTOLD.rows(conn, {"of_profile": profile, "of_key": session_key}).one_or_none()
    return None if row is None else _reset(row)


def unasked(conn: Connection, profile: str, platform: str) -> list[Reset]:
    """Those for whose old sessions the agent was not asked yet."""
    query = sa.select(chat_session).where(
        _row.profile == profile,
        _row.session_key.startswith(_beginning_of(platform)),
        _row.ended_session_id.is_not(None),
        ~_row.is_review_asked,
    )
    return [_reset(row) for row in conn.execute(query)]


def note_told(conn: Connection, reset: Reset) -> None:
    """Its person is told."""
    conn.execute(_it(reset).values(ended_why=None))


def note_asked(conn: Connection, reset: Reset) -> None:
    """The agent was asked to look back."""
    conn.execute(_it(reset).values(is_review_asked=True))


def _it(reset: Reset) -> sa.Update:
    return sa.update(chat_session).where(
        _row.profile == reset.profile,
        _row.session_key == reset.session_key,
        _row.ended_session_id == reset.old_session_id,
    )


def _empty(profile: str, found: Due) -> sa.Update:
    """Take from a chat, unless it was used meanwhile, the time at which it was."""
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


def _beginning_of(platform: str) -> str:
    """How the keys of a platform's chats begin."""
    return f"agent:main:{platform}:"


def _reset(row: sa.Row[Any]) -> Reset:
    return Reset(
        row.session_id, row.ended_session_id, row.session_key, row.profile, row.ended_why or ""
    )
