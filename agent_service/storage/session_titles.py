"""What a session's title is made of, and the title that a model makes."""

import json

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.search.query import text_of
from agent_service.storage.schema import LIVE_STATES, message, session, turn
from agent_service.usage import Usage
from services.database import is_one_of

_SAID = (
    sa.select(message.c.content, session.c.title)
    .join(session, session.c.id == message.c.session_id)
    .where(
        message.c.session_id == bindparam("session_id"),
        message.c.turn_id == bindparam("turn_id"),
        message.c.role == "user",
        session.c.is_named.is_(False),
    )
    .order_by(message.c.sequence)
    .limit(1)
)
_ANSWERED_BEFORE = (
    sa.select(message.c.sequence)
    .where(
        message.c.session_id == bindparam("session_id"),
        message.c.turn_id != bindparam("turn_id"),
        message.c.role == "assistant",
    )
    .limit(1)
)
_GIVE = (
    sa.update(session)
    .where(
        session.c.id == bindparam("key"),
        session.c.title == bindparam("old_title"),
        session.c.is_named.is_(False),
    )
    .values(title=bindparam("new_title"))
)
_IDLE_USAGE = (
    sa.select(session.c.usage)
    .where(
        session.c.id == bindparam("id"),
        ~sa.select(turn.c.id)
        .where(turn.c.session_id == session.c.id, is_one_of(turn.c.state, LIVE_STATES))
        .exists(),
    )
    .with_for_update()
)
_COUNT = (
    sa.update(session)
    .where(session.c.id == bindparam("key"))
    .values(usage=bindparam("new_usage", type_=session.c.usage.type))
)


class Untitled(Struct, frozen=True):
    """A session that is still called by how its first message begins."""

    title: str
    said: str
    """The first message."""


def untitled(conn: Connection, session_id: str, turn_id: str) -> Untitled | None:
    """The session, if this turn is the first of it that was answered and nobody has named it."""
    values = {"session_id": session_id, "turn_id": turn_id}
    first = conn.execute(_SAID, values).one_or_none()
    if first is None or conn.execute(_ANSWERED_BEFORE, values).first() is not None:
        return None
    said = text_of(json.loads(first.content)["content"])
    return Untitled(first.title, said)


def give(conn: Connection, session_id: str, old: str, new: str) -> None:
    """Give a session a title, unless it has got another one meanwhile or is gone."""
    conn.execute(_GIVE, {"key": session_id, "old_title": old, "new_title": new})


def count(conn: Connection, session_id: str, used: Usage) -> None:
    """Add to what a session has used in all.

    A turn that runs by now has read that sum before and stores it anew, without this.
    """
    known = conn.execute(_IDLE_USAGE, {"id": session_id}).scalar_one_or_none()
    if known is not None:
        conn.execute(_COUNT, {"key": session_id, "new_usage": known + used})
