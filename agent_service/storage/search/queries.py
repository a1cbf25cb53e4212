"""Finds messages by their words: the newest, or the best of the newest.

SQLite's FTS5 returns matches from the newest on. PostgreSQL's GIN index has no order and returns
all matches, which are many where a word is frequent; so the words are first looked for in the
newest messages, and the index is used if these have too few matches.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.search_query import Query
from agent_service.storage.schema import message, session
from agent_service.storage.search.index import WORDS, id_at, message_text


class SearchQuery(Struct, frozen=True):
    """What is looked for."""

    profile: str
    query: Query
    session_id: str = ""
    """Search this session and what it was branched from; empty means all sessions."""
    role: str = ""
    since: datetime | None = None
    until: datetime | None = None
    between: tuple[int, int] | None = None
    excluding: tuple[str, ...] = ()
    before: int | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return all conditions but those on words."""
        of = message_text.c
        conditions = [
            of.profile == self.profile,
            of.session_id == self.session_id if self.session_id else ~of.is_copy,
        ]
        if self.role:
            conditions.append(of.role == self.role)
        if self.since is not None:
            conditions.append(of.id >= id_at(self.since))
        if self.until is not None:
            conditions.append(of.id < id_at(self.until))
        if self.before is not None:
            conditions.append(of.id < self.before)
        if self.between:
            conditions.append(of.sequence.between(*self.between))
        if self.excluding:
            conditions.append(of.session_id.not_in(self.excluding))
        return conditions


RANKED = 2000
RANKED_CHARS = 4000
"""The part of each text that counts."""
USUAL_CHARS = 500
"""Matches in longer messages count less."""


class Hit(Struct, frozen=True):
    """A message that matches."""

    id: int
    session_id: str
    title: str
    platform: str
    sequence: int
    turn_id: str
    content: dict[str, Any]
    created_at: datetime


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


def newest(conn: Connection, wanted: SearchQuery, most: int) -> list[Hit]:
    """Return the newest matches."""
    return _hits(conn, wanted, [id_ for id_, _ in _newest(conn, wanted, most)])


def most_relevant(conn: Connection, wanted: SearchQuery, most: int) -> list[Hit]:
    """Rank the newest matches by how often they contain the words, and by shortness."""
    found = _newest(conn, wanted, RANKED)
    scored = sorted(
        ((_score(said[:RANKED_CHARS], wanted.query), id_) for id_, said in found), reverse=True
    )
    return _hits(conn, wanted, [id_ for _, id_ in scored[:most]])


def _score(said: str, query: Query) -> float:
    """Score a text: each repetition of a phrase counts less, as does a match in a long text."""
    damping = len(said) * 0.9 / USUAL_CHARS + 0.3
    counts = [f" {said} ".count(f" {phrase} ") for phrase in query.phrases]
    return sum(count * 2.2 / (count + damping) for count in counts)


def around(conn: Connection, wanted: SearchQuery) -> list[Hit]:
    """Return all messages of a part of a session in order."""
    assert wanted.between is not None, "a part is between two messages"
    first, last = wanted.between
    place = {"of_session": wanted.session_id, "first": first, "last": last}
    ids = list(conn.scalars(_AROUND, place | {"role": wanted.role}))
    return _hits(conn, wanted, ids)


_RECENT, _FOR_EACH = 2000, 4
"""PostgreSQL looks through so many of the newest messages, and more for each that is wanted."""
_BY_INDEX = sa.text(f"{WORDS} @@ CAST(:query AS tsquery)")
_FTS = sa.table("message_fts", sa.column("rowid"), sa.column("message_fts"))
_MATCHES = (
    sa.select(_FTS.c.rowid, message_text.c.terms)
    .join(message_text, message_text.c.id == _FTS.c.rowid)
    .where(_FTS.c.message_fts.match(bindparam("query")))
    .order_by(_FTS.c.rowid.desc())
)


def _newest(conn: Connection, wanted: SearchQuery, most: int) -> Sequence[sa.Row[*tuple[Any, ...]]]:
    """Return the ids and terms of the newest matches."""
    of, query, conditions = message_text.c, wanted.query, wanted.conditions()
    every = sa.select(of.id, of.terms).where(*conditions)
    # `id + 0` rules out that the messages are read in the order of their ids.
    found = every.order_by((of.id + 0).desc()).limit(most)
    if wanted.session_id:
        return conn.execute(found.where(_contains(conn, of.terms, query))).all()
    if conn.dialect.name == "sqlite":
        matches = _MATCHES.where(*conditions).limit(most)
        return conn.execute(matches, {"query": _match(query)}).all()
    recent = every.order_by(of.id.desc()).limit(_RECENT + _FOR_EACH * most).subquery()
    first = sa.select(recent).where(_contains(conn, recent.c.terms, query))
    rows = conn.execute(first.order_by(recent.c.id.desc()).limit(most)).all()
    if len(rows) == most:
        return rows
    # The index does not know the order of words.
    phrases = [group for group in query.groups if any(" " in phrase for phrase in group)]
    found = found.where(_BY_INDEX, _contains(conn, of.terms, Query(tuple(phrases))))
    return conn.execute(found, {"query": _tsquery(query)}).all()


def _match(query: Query) -> str:
    groups = (" OR ".join(f'"{phrase}"' for phrase in group) for group in query.groups)
    return " AND ".join(f"({group})" for group in groups)


def _tsquery(query: Query) -> str:
    """Return the words of all phrases, which consist of letters and digits only."""
    groups = (
        " | ".join("'" + phrase.replace(" ", "' & '") + "'" for phrase in group)
        for group in query.groups
    )
    return " & ".join(f"({group})" for group in groups)


def _contains(
    conn: Connection, terms: sa.ColumnElement[str], query: Query
) -> sa.ColumnElement[bool]:
    """Return the condition that a text has a phrase of each group."""
    place = sa.func.instr if conn.dialect.name == "sqlite" else sa.func.strpos
    text = " " + terms + " "
    groups = ([place(text, f" {phrase} ") > 0 for phrase in group] for group in query.groups)
    return sa.and_(sa.true(), *(sa.or_(*group) for group in groups))


def _hits(conn: Connection, wanted: SearchQuery, ids: Sequence[int]) -> list[Hit]:
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
