"""Finds messages by their words: the newest first, or the best of the newest.

Both databases are asked for numbers of messages, from the newest on, and stop when they have
enough. SQLite's FTS5 can do so from its index. PostgreSQL's index has no order: what a frequent
word is in is found by looking at the newest messages one by one, what a rare one is in by the
index, as it is in few.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.search.query import Query
from agent_service.storage.schema import message, session
from agent_service.storage.search_index import id_at, token
from agent_service.storage.search_schema import message_text

RANKED = 2000
"""By relevance are sorted so many matches, the newest."""
RANKED_CHARS = 4000
"""So much of each counts."""
LOOKED_THROUGH = 500
"""Messages that PostgreSQL looks at one by one before it asks its index."""
LOOKED_THROUGH_FOR_PHRASES = 4000
"""The same where words have to follow each other, which the index does not know."""
LOOKED_THROUGH_AT_MOST = 20_000
"""If so many promise to have enough matches, it looks at them as well."""
USUAL_CHARS = 500
"""A match in a longer message counts less."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for."""

    profile: str
    query: Query
    session_id: str = ""
    """Only in this session, and there also what it was branched from; empty means in all."""
    role: str = ""
    since: datetime | None = None
    until: datetime | None = None
    between: tuple[int, int] | None = None
    """Only messages of these sequences, both included."""
    excluding: tuple[str, ...] = ()
    """Not in these sessions."""
    before: int | None = None
    """Only what comes after the hit of this id in the order of time, newest first."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found."""

    id: int
    session_id: str
    title: str
    platform: str
    sequence: int
    turn_id: str
    content: dict[str, Any]
    created_at: datetime


_GIVEN = {
    "sqlite": "IN (SELECT value FROM json_each(:ids))",
    "postgresql": "= ANY (CAST(:ids AS bigint[]))",
}
_BEST = """
WITH given AS MATERIALIZED (
  SELECT id, ' ' || substr(terms, 1, :chars) || ' ' AS said FROM message_text WHERE id {given}
), counted AS MATERIALIZED (
  SELECT id, CAST(length(said) AS double precision) * 0.9 / :usual + 0.3 AS damping, {counts}
  FROM given
)
SELECT id FROM counted ORDER BY {score} DESC, id DESC LIMIT :most"""
_COUNT = """
CAST((length(said) - length(replace(said, :{name}, ''))) / length(:{name}) AS double precision)
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


def newest(
    conn: Connection, wanted: Wanted, most: int, look_through: int = LOOKED_THROUGH
) -> list[Hit]:
    """The newest matches."""
    return _hits(conn, wanted, _newest_ids(conn, wanted, most, look_through))


def most_relevant(conn: Connection, wanted: Wanted, most: int) -> list[Hit]:
    """Of the newest matches those that say the words most, in the shortest messages."""
    ids = _newest_ids(conn, wanted, RANKED, LOOKED_THROUGH)
    dialect = conn.dialect.name
    phrases = {f"phrase_{n}": f" {phrase} " for n, phrase in enumerate(wanted.query.phrases)}
    best = _BEST.format(
        given=_GIVEN[dialect],
        counts=", ".join(_COUNT.format(name=name) for name in phrases),
        score=" + ".join(_SCORE.format(name=name) for name in phrases),
    )
    values = {
        "ids": json.dumps(ids) if dialect == "sqlite" else ids,
        "chars": RANKED_CHARS,
        "usual": USUAL_CHARS,
        "most": most,
    }
    return _hits(conn, wanted, list(conn.scalars(sa.text(best), values | phrases)))


def around(conn: Connection, wanted: Wanted) -> list[Hit]:
    """All messages of a part of a session, in their order."""
    assert wanted.between is not None, "a part is between two messages"
    first, last = wanted.between
    place = {"of_session": wanted.session_id, "first": first, "last": last}
    ids = list(conn.scalars(_AROUND, place | {"role": wanted.role}))
    return _hits(conn, wanted, ids)


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


def _newest_ids(conn: Connection, wanted: Wanted, most: int, look_through: int) -> list[int]:
    """The ids of the newest matches."""
    values = _limits(wanted) | {"most": most}
    if conn.dialect.name == "sqlite":
        statement = _NEWEST_BETWEEN if wanted.between else _NEWEST
        return list(conn.scalars(statement, values | {"match": _match(wanted)}))
    query, words = _tsquery(wanted)
    values |= words
    if not wanted.session_id and not wanted.between:
        values["profile"] = wanted.profile
        ids = _looked_through(conn, query, values, _window(wanted, most, look_through))
        if len(ids) >= most:
            return ids
    between = _BETWEEN if wanted.between else ""
    by_index = _planned(_BY_INDEX.format(query=query, between=between))
    return list(conn.scalars(by_index, values))


def _window(wanted: Wanted, most: int, look_through: int) -> int:
    """How many of the newest messages are looked at first."""
    follow = any(" " in phrase for phrase in wanted.query.phrases)
    return max(LOOKED_THROUGH_FOR_PHRASES if follow else 0, look_through, 2 * most)


def _looked_through(
    conn: Connection, query: str, values: Mapping[str, Any], window: int
) -> list[int]:
    """The matches among the newest messages: enough, or too few and then not all there are."""
    looked = _planned(_LOOK_THROUGH.format(query=query))
    most = values["most"]
    ids = list(conn.scalars(looked, {**values, "window": window}))
    if ids and len(ids) < most:
        # As frequent as here, enough of them are among so many; a third more, as it is a guess.
        window = window * most * 4 // (len(ids) * 3)
        if window <= LOOKED_THROUGH_AT_MOST:
            ids = list(conn.scalars(looked, {**values, "window": window}))
    return ids


def _limits(wanted: Wanted) -> dict[str, Any]:
    """The first and the last id that may be found."""
    least = 0 if wanted.since is None else id_at(wanted.since)
    greatest = (1 << 63) - 1 if wanted.until is None else id_at(wanted.until) - 1
    if wanted.before is not None:
        greatest = min(greatest, wanted.before - 1)
    limits: dict[str, Any] = {"least": least, "greatest": greatest}
    if wanted.between:
        limits |= {"from_sequence": wanted.between[0], "to_sequence": wanted.between[1]}
    return limits


def _scope(wanted: Wanted) -> tuple[list[str], list[str]]:
    """The tokens that a message's scope has to have, and those that it must not."""
    # A copy has no token of its profile, so that it is only found where its session is searched.
    where = token("S", wanted.session_id) if wanted.session_id else token("P", wanted.profile)
    role = [token("R", wanted.role)] if wanted.role else []
    return [where, *role], [token("S", session_id) for session_id in wanted.excluding]


# ---- SQLite

_NEWEST = sa.text("""
SELECT rowid FROM message_fts
WHERE message_fts MATCH :match AND rowid BETWEEN :least AND :greatest
ORDER BY rowid DESC LIMIT :most""")
_NEWEST_BETWEEN = sa.text("""
SELECT t.id FROM message_fts f JOIN message_text t ON t.id = f.rowid
WHERE f.message_fts MATCH :match AND f.rowid BETWEEN :least AND :greatest
  AND t.sequence BETWEEN :from_sequence AND :to_sequence
ORDER BY t.id DESC LIMIT :most""")
"""Within one session, so that few are to be sorted."""


def _match(wanted: Wanted) -> str:
    """The query in the syntax of FTS5; words have nothing but letters and digits."""
    wants, never = _scope(wanted)
    scopes = [f'scope : "{name}"' for name in wants]
    groups = (" OR ".join(f'"{phrase}"' for phrase in group) for group in wanted.query.groups)
    said = " AND ".join(f"({group})" for group in groups)
    match = " AND ".join([*scopes, f"terms : ({said})"])
    if never:
        excluded = " OR ".join(f'"{name}"' for name in never)
        match = f"({match}) NOT scope : ({excluded})"
    return match


# ---- PostgreSQL

_LOOK_THROUGH = """
WITH q AS MATERIALIZED (SELECT {query} AS query)
SELECT w.id FROM (
  SELECT id, vector FROM message_text
  WHERE profile = :profile AND id BETWEEN :least AND :greatest
  ORDER BY id DESC LIMIT :window
) w WHERE w.vector @@ (SELECT query FROM q)
ORDER BY w.id DESC LIMIT :most"""
_NUMBERS = ("least", "greatest", "most", "window", "from_sequence", "to_sequence")
_BETWEEN = " AND t.sequence BETWEEN :from_sequence AND :to_sequence"
_BY_INDEX = """
WITH q AS MATERIALIZED (SELECT {query} AS query)
SELECT t.id FROM message_text t
WHERE t.vector @@ (SELECT query FROM q) AND t.id BETWEEN :least AND :greatest{between}
ORDER BY t.id + 0 DESC LIMIT :most"""
"""Ordered by a sum, or the planner would walk through all messages in their order."""


def _planned(statement: str) -> sa.TextClause:
    """With its numbers in its text, as a plan for any numbers is a bad one for these."""
    numbers = [name for name in _NUMBERS if f":{name}" in statement]
    return sa.text(statement).bindparams(
        *(bindparam(name, type_=sa.BigInteger, literal_execute=True) for name in numbers)
    )


def _tsquery(wanted: Wanted) -> tuple[str, Mapping[str, str]]:
    """The query as an expression of PostgreSQL, and the words that it is given."""
    wants, never = _scope(wanted)
    values: dict[str, str] = {}
    groups: list[str] = []
    for group in wanted.query.groups:
        parts: list[str] = []
        for phrase in group:
            name = f"phrase_{len(values)}"
            values[name] = phrase
            parts.append(f"phraseto_tsquery('simple', :{name})")
        groups.append(f"({' || '.join(parts)})")
    values["scope"] = " & ".join([*wants, *(f"!{name}" for name in never)])
    return " && ".join(["CAST(:scope AS tsquery)", *groups]), values
