"""What a session's title is made of, and the title that a model makes."""

import json

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.search.query import text_of
from agent_service.storage.schema import LIVE_STATES, message, session, turn
from agent_service.usage import Usage
from services.database import is_one_of


class Untitled(Struct, frozen=True):
    """A session that is still called by how its first message begins."""

    title: str
    said: str
    """The first message."""


def untitled(conn: Connection, session_id: str, turn_id: str) -> Untitled | None:
    """The session, if this turn is the first of it that was answered and nobody has named it."""
    first = conn.execute(
        sa.select(message.c.content, session.c.title)
        .join(session, session.c.id == message.c.session_id)
        .where(
            message.c.session_id == session_id,
            message.c.turn_id == turn_id,
            message.c.role == "user",
            session.c.is_named.is_(False),
        )
        .order_by(message.c.sequence)
        .limit(1)
    ).one_or_none()
    answered_before = sa.select(message.c.sequence).where(
        message.c.session_id == session_id,
        message.c.turn_id != turn_id,
        message.c.role == "assistant",
    )
    if first is None or conn.execute(answered_before.limit(1)).first() is not None:
        return None
    return Untitled(first.title, text_of(json.loads(first.content)["content"]))


def give(conn: Connection, session_id: str, old: str, new: str) -> None:
    """Give a session a title, unless it has got another one meanwhile or is gone."""
    its_row = sa.update(session).where(
        session.c.id == session_id, session.c.title == old, session.c.is_named.is_(False)
    )
    conn.execute(its_row.values(title=new))


def count(conn: Connection, session_id: str, used: Usage) -> None:
    """Add to what a session has used in all.

    A turn that runs by now has read that sum before and stores it anew, without this.
    """
    is_live = turn.c.session_id == session.c.id, is_one_of(turn.c.state, LIVE_STATES)
    idle = sa.select(session.c.usage).where(
        session.c.id == session_id, ~sa.exists().where(*is_live)
    )
    known = conn.execute(idle.with_for_update()).scalar_one_or_none()
    if known is not None:
        its_row = sa.update(session).where(session.c.id == session_id)
        conn.execute(its_row.values(usage=known + used))
