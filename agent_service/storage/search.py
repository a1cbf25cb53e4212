"""Finds messages by their words: the newest first, or the best of the newest.

Both databases are asked for numbers of messages, from the newest on, and stop when they have
enough; each has a module that knows how.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.storage import search_postgresql, search_sqlite
from agent_service.storage.schema import message, session
from agent_service.storage.search_schema import message_text
from agent_service.storage.search_wanted import Find, Wanted

RANKED = 2000
"""By relevance are sorted so many matches, the newest."""
RANKED_CHARS = 4000
"""So much of each counts."""
USUAL_CHARS = 500
"""A match in a longer message counts less."""


class Hit(Struct, frozen=True):
    """A message that was found."""

    id: int
    session_id: str
    title: str
    platform: str
    sequence: int
    turn_id: str
    content: dict[str, Any]
    created_at: datetime


_AMONG = {"sqlite": "IN ({find})", "postgresql": "= ANY (ARRAY({find}))"}
_SIZE = {"sqlite": "length", "postgresql": "octet_length"}
"""How long a text is, in whatever unit: PostgreSQL knows bytes without counting them."""
_BEST = """
WITH given AS MATERIALIZED (
  SELECT id, ' ' || CASE WHEN {size}(terms) > :chars THEN substr(terms, 1, :chars) ELSE terms END
    || ' ' AS said
  FROM message_text WHERE id {among}
), counted AS MATERIALIZED (
  SELECT id, CAST(length(said) AS double precision) * 0.9 / :usual + 0.3 AS damping, {counts}
  FROM given
)
SELECT id FROM counted ORDER BY {score} DESC, id DESC LIMIT :most"""
_COUNT = """
CAST(({size}(said) - {size}(replace(said, :{name}, ''))) / {size}(:{name}) AS double precision)
AS {name}"""
_SCORE = "{name} * 2.2 / ({name} + damping)"
"""Each time that a phrase is said counts less than the last; so does each in a long message."""
_HITS = (
    sa.select(
        message_text.c.id,
        session.c.id.label("session_id"),
        session.c.title,
        session.c.platform,
        message.c.sequence,
        message.c.turn_id,
        message.c.content,
        message.c.created_at,
    )
    .join_from(
        message_text,
        message,
        sa.and_(
            message.c.session_id == message_text.c.session_id,
            message.c.sequence == message_text.c.sequence,
        ),
    )
    .join(session, session.c.id == message.c.session_id)
    # What was found is of this profile by its scope already; this makes sure of it.
    .where(
        message_text.c.id.in_(bindparam("ids", expanding=True)),
        session.c.profile == bindparam("profile"),
    )
)


_AROUND = (
    sa.select(message_text.c.id)
    .join(
        message,
        sa.and_(
            message.c.session_id == message_text.c.session_id,
            message.c.sequence == message_text.c.sequence,
        ),
    )
    .where(
        message_text.c.session_id == bindparam("of_session"),
        message_text.c.sequence.between(bindparam("first"), bindparam("last")),
        sa.or_(bindparam("role") == "", message.c.role == bindparam("role")),
    )
    .order_by(message_text.c.sequence)
)


def newest(conn: Connection, wanted: Wanted, most: int) -> list[Hit]:
    """The newest matches."""
    sql, values = _find(conn, wanted, most)
    return _hits(conn, wanted, list(conn.scalars(sa.text(sql), values)))


def most_relevant(conn: Connection, wanted: Wanted, most: int) -> list[Hit]:
    """Of the newest matches those that say the words most, in the shortest messages."""
    dialect, (find, values) = conn.dialect.name, _find(conn, wanted, RANKED)
    phrases = {f"said_{n}": f" {phrase} " for n, phrase in enumerate(wanted.query.phrases)}
    best = _BEST.format(
        among=_AMONG[dialect].format(find=find),
        size=_SIZE[dialect],
        counts=", ".join(_COUNT.format(name=name, size=_SIZE[dialect]) for name in phrases),
        score=" + ".join(_SCORE.format(name=name) for name in phrases),
    )
    limits = {"chars": RANKED_CHARS, "usual": USUAL_CHARS, "most": most}
    return _hits(conn, wanted, list(conn.scalars(sa.text(best), {**values, **limits, **phrases})))


def around(conn: Connection, wanted: Wanted) -> list[Hit]:
    """All messages of a part of a session, in their order."""
    assert wanted.between is not None, "a part is between two messages"
    first, last = wanted.between
    place = {"of_session": wanted.session_id, "first": first, "last": last}
    ids = list(conn.scalars(_AROUND, place | {"role": wanted.role}))
    return _hits(conn, wanted, ids)


def _find(conn: Connection, wanted: Wanted, enough: int) -> Find:
    if conn.dialect.name == "sqlite":
        return search_sqlite.find(wanted, enough)
    return search_postgresql.find(conn, wanted, enough)


def _hits(conn: Connection, wanted: Wanted, ids: Sequence[int]) -> list[Hit]:
    rows = conn.execute(_HITS, {"ids": list(ids), "profile": wanted.profile}) if ids else ()
    found = {
        row.id: Hit(
            id=row.id,
            session_id=row.session_id,
            title=row.title,
            platform=row.platform,
            sequence=row.sequence,
            turn_id=row.turn_id,
            content=json.loads(row.content),
            created_at=row.created_at,
        )
        for row in rows
    }
    return [found[id_] for id_ in ids if id_ in found]
