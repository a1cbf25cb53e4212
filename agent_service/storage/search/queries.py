"""Finds messages by their words: the newest, or the best of the newest.

Both databases return message ids from the newest on, until there are enough. SQLite's FTS5 reads
its index in that order. PostgreSQL's GIN index has no order and would return all matches first, but
quickly finds messages that have some words and are of some time; so it is asked for one slice of
time after another, newest first.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.search_query import Query
from agent_service.storage.schema import message, session
from agent_service.storage.search.index import (
    SAMPLED,
    WORDS,
    id_at,
    message_text,
    pairs,
    slices,
    spans,
    token,
)


class Find(NamedTuple):
    """A statement that finds ids, and its parameters."""

    sql: str
    values: Mapping[str, Any]


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

    def limits(self) -> Mapping[str, int]:
        least = 0 if self.since is None else id_at(self.since)
        greatest = (1 << 63) - 1 if self.until is None else id_at(self.until) - 1
        if self.before is not None:
            greatest = min(greatest, self.before - 1)
        limits = {"least": least, "greatest": greatest}
        if self.between:
            limits |= {"from_sequence": self.between[0], "to_sequence": self.between[1]}
        return limits

    def scope(self) -> tuple[list[str], list[str]]:
        """Return the tokens that a message's scope must have, and those that it must not."""
        # Copies have no profile token, so that only searches of their session find them.
        where = token("S", self.session_id) if self.session_id else token("P", self.profile)
        role = [token("R", self.role)] if self.role else []
        return [where, *role], [token("S", session_id) for session_id in self.excluding]


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


_TEXTS = sa.select(
    message_text.c.id, sa.func.substr(message_text.c.terms, 1, RANKED_CHARS).label("said")
).where(message_text.c.id.in_(bindparam("ids", expanding=True)))
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
    # The scope already limits hits to this profile; this makes sure of it.
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
    return _hits(conn, wanted, _newest(conn, wanted, most))


def most_relevant(conn: Connection, wanted: SearchQuery, most: int) -> list[Hit]:
    """Rank the newest matches by how often they contain the words, and by shortness."""
    texts = conn.execute(_TEXTS, {"ids": _newest(conn, wanted, RANKED)})
    scored = sorted(((_score(said, wanted.query), id_) for id_, said in texts), reverse=True)
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


def _newest(conn: Connection, wanted: SearchQuery, enough: int) -> Sequence[int]:
    is_sqlite = conn.dialect.name == "sqlite"
    find = _find_on_sqlite if is_sqlite else _find_on_postgresql
    sql, values = find(conn, wanted, enough)
    return conn.scalars(sa.text(sql), values).all()


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


_NEWEST = """
SELECT rowid FROM message_fts
WHERE message_fts MATCH :match AND rowid BETWEEN :least AND :greatest
ORDER BY rowid DESC LIMIT :enough"""
_NEWEST_BETWEEN = """
SELECT t.id FROM message_fts f JOIN message_text t ON t.id = f.rowid
WHERE f.message_fts MATCH :match AND f.rowid BETWEEN :least AND :greatest
  AND t.sequence BETWEEN :from_sequence AND :to_sequence
ORDER BY t.id DESC LIMIT :enough"""
"""Within one session, so that few rows are sorted."""


def _find_on_sqlite(_: Connection, wanted: SearchQuery, enough: int) -> Find:
    values = {**wanted.limits(), "match": _match(wanted), "enough": enough}
    return Find(_NEWEST_BETWEEN if wanted.between else _NEWEST, values)


def _match(wanted: SearchQuery) -> str:
    wants, never = wanted.scope()
    scopes = [f'scope : "{name}"' for name in wants]
    groups = (" OR ".join(f'"{phrase}"' for phrase in group) for group in wanted.query.groups)
    expression = " AND ".join(f"({group})" for group in groups)
    match = " AND ".join([*scopes, f"terms : ({expression})"])
    if never:
        excluded = " OR ".join(f'"{name}"' for name in never)
        match = f"({match}) NOT scope : ({excluded})"
    return match


_SAMPLES = sa.text(f"""
SELECT min(id), max(id), ARRAY(
  SELECT id FROM message_text
  WHERE profile = :profile AND {SAMPLED} AND id BETWEEN :least AND :greatest ORDER BY id DESC
) FROM message_text""")  # noqa: S608 - constants
_A_SAMPLE = 1021
"""Messages for each sample."""
_FIND = """
SELECT found.id
FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[]), CAST(:times AS text[]))
  AS slice (first, last, times)
CROSS JOIN LATERAL (
  SELECT id FROM message_text
  WHERE {words} @@ CAST(:query AS tsquery) AND {words} @@ CAST(slice.times AS tsquery)
    AND id + 0 BETWEEN slice.first AND slice.last AND profile = :profile {conditions}
  ORDER BY id + 0 DESC
) found LIMIT :enough"""
"""Reads a slice only if earlier ones had too few matches; `id + 0` rules out other indexes.

The profile's mark is compared too, because some words once looked like one.
"""
_IN_A_ROW = "strpos(' ' || terms || ' ', :{name}) > 0"
_BETWEEN = "AND sequence BETWEEN :from_sequence AND :to_sequence"

_Range = tuple[int, int]


def _find_on_postgresql(conn: Connection, wanted: SearchQuery, enough: int) -> Find:
    query = _tsquery(wanted)
    places = list(_places(conn, wanted, enough))
    conditions, phrases = _conditions(wanted)
    values = {
        "query": query,
        "firsts": [first for (first, _), _ in places],
        "lasts": [last for (_, last), _ in places],
        "times": [" | ".join(map(_quoted, times)) or query for _, times in places],
        "enough": enough,
    }
    sql = _FIND.format(words=WORDS, conditions=conditions)
    return Find(sql, {**wanted.limits(), **values, **phrases, "profile": wanted.profile})


def _places(
    conn: Connection, wanted: SearchQuery, enough: int
) -> Iterator[tuple[_Range, list[str]]]:
    limits = wanted.limits()
    least, greatest = limits["least"], limits["greatest"]
    if wanted.session_id:
        yield (least, greatest), []
        return
    between = {"profile": wanted.profile, "least": least, "greatest": greatest}
    oldest, latest, samples = conn.execute(_SAMPLES, between).one()
    if oldest is None:
        return
    first, last = max(least, oldest), min(greatest, latest)
    for part in slices(first, last, samples, 1 + enough // _A_SAMPLE):
        yield part, spans(*part)


def _tsquery(wanted: SearchQuery) -> str:
    wants, never = wanted.scope()
    parts = [*map(_quoted, wants), *(f"!{_quoted(name)}" for name in never)]
    for group in wanted.query.groups:
        phrases = (" & ".join(map(_quoted, _phrase_terms(phrase))) for phrase in group)
        parts += [f"({' | '.join(phrases)})"]
    return " & ".join(parts)


def _phrase_terms(phrase: str) -> list[str]:
    """Return what the index knows of a phrase: its pairs if all are marked, else its words."""
    words, known = phrase.split(), pairs(phrase)
    return known if len(known) == len(words) - 1 and known else [*words, *known]


def _quoted(name: str) -> str:
    """Quote a word or token, which consists of letters and digits only."""
    return f"'{name}'"


def _conditions(wanted: SearchQuery) -> tuple[str, Mapping[str, str]]:
    """Return conditions that the index cannot check: sequences and phrases."""
    conditions = [_BETWEEN] if wanted.between else []
    phrases: dict[str, str] = {}
    for group in wanted.query.groups:
        if not any(" " in phrase for phrase in group):
            continue
        ways: list[str] = []
        for phrase in group:
            name = f"phrase_{len(phrases)}"
            phrases[name] = f" {phrase} "
            ways.append(_IN_A_ROW.format(name=name))
        conditions.append(f"AND ({' OR '.join(ways)})")
    return " ".join(conditions), phrases
