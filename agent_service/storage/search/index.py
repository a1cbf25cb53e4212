"""The search index: its table, and the full-text index of each database.

SQLite keeps an FTS5 table with triggers. FTS5 merges a little with each message, because automatic
merges would make one message in thousands wait: eight segments of a size at a time, since every
page is rewritten once for each size, and eight pages at most.

PostgreSQL has a GIN index on an expression, whose pending list `SearchUpkeep` merges. The tsvector
is not stored: it is twice as long as the text, and the index answers all that is asked of it. GIN
knows neither order nor positions. So messages are marked with the spans of time that they are in,
by which the newest matches are found slice by slice, and with the pairs of adjacent short words, so
that a phrase of frequent words is checked in few messages.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
)
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError, ProgrammingError

from agent_service.records.search_query import searchable, terms
from agent_service.storage.schema import message, metadata, session
from services.clock import Clock
from services.database import Database, Prepared, insert_ignore
from services.errors import DatabaseUnavailable

SPANS = (53, 50, 47, 44, 41, 38, 35)
"""The number of id bits that make 102 days, 13 days, 38 hours and so on, down to 34 seconds."""
_MOST_SPANS = 100
"""A slice with more of the longest spans, which has a strange date, is not limited by spans."""
_SHORT = 3
"""The longest words whose pairs are marked: frequent words are short."""
_PAIRS = 1 << 16
"""The number of distinct pairs: with fewer, each posting list is long, and PostgreSQL rewrites a
whole list for each new message."""
_MOST_TOGETHER = 8
"""The maximum number of samples between two slices."""


def pairs(terms: str) -> list[str]:
    """Return the marks for texts with these words in a row."""
    found = [
        f"Q{crc32(f'{one} {next_}'.encode()) % _PAIRS:x}"
        for one, next_ in pairwise(terms.split())
        if len(one) <= _SHORT and len(next_) <= _SHORT
    ]
    return list(dict.fromkeys(found))


def spans(first: int, last: int) -> list[str]:
    """Return few marks that cover all ids of a range, and some near it."""
    slack = (last - first) // 8
    begin, end = _roundest(first - slack - 1, first), _roundest(last, last + slack + 1)
    return list(_spans(begin, end)) if (end - begin) >> SPANS[0] <= _MOST_SPANS else []


def slices(first: int, last: int, samples: Sequence[int], wide: int) -> Iterator[tuple[int, int]]:
    """Yield subranges of an id range, latest first; both ends are included.

    `samples` are some ids of the range, latest first, as dense as all ids. The first subrange has
    about `wide` of them, and later ones have more. Subranges begin and end at long spans.
    """
    at = wide - 1
    while at < len(samples):
        older = at + max(1, wide // 2)
        edge = _roundest(samples[older] if older < len(samples) else first - 1, samples[at])
        yield edge, last
        last = edge - 1
        wide = min(2 * wide, max(wide, _MOST_TOGETHER))
        at = older + wide - 1
    if first <= last:
        yield first, last


def _spans(at: int, end: int) -> Iterator[str]:
    at = at >> SPANS[-1] << SPANS[-1]
    while at < end:
        fitting = (bits for bits in SPANS if not at % (1 << bits) and at + (1 << bits) <= end)
        bits = next(fitting, SPANS[-1])
        yield f"T{bits}x{at >> bits:x}"
        at += 1 << bits


def _roundest(above: int, most: int) -> int:
    """Return the number in (above, most] that starts the longest spans."""
    zeros = (above ^ most).bit_length() - 1
    return most >> zeros << zeros


_TIMES = ", ".join(f"'T{bits}x' || to_hex(id >> {bits})" for bits in SPANS)
WORDS = f"array_to_tsvector(string_to_array(rtrim(scope || ' ' || terms), ' ') || ARRAY[{_TIMES}])"
"""PostgreSQL's index of a message: its words and tokens without positions, and its time marks."""
SAMPLED = "mod(id, 1021) = 0"
"""Selects about one message in a thousand, to see how messages are spread over time."""

message_text = Table(
    "message_text",
    metadata,
    Column(
        "id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False
    ),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("scope", Text, nullable=False),
    Column("terms", Text, nullable=False),
    ForeignKeyConstraint(
        ["session_id", "sequence"],
        ["message.session_id", "message.sequence"],
        name="message_text_message",
    ),
    Index("message_text_by_message", "session_id", "sequence", unique=True),
)
"""`id` grows with the message's time; `scope` has tokens of its profile, session and role."""

_SQLITE = (
    """
    CREATE VIRTUAL TABLE message_fts USING fts5 (
        scope, terms, content='message_text', content_rowid='id', tokenize='ascii'
    )
    """,
    "INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 0)",
    "INSERT INTO message_fts (message_fts, rank) VALUES ('crisismerge', 64)",
    "INSERT INTO message_fts (message_fts, rank) VALUES ('usermerge', 8)",
    """
    CREATE TRIGGER message_text_added AFTER INSERT ON message_text BEGIN
        INSERT INTO message_fts (rowid, scope, terms) VALUES (new.id, new.scope, new.terms);
        INSERT INTO message_fts (message_fts, rank) VALUES ('merge', 8);
    END
    """,
    """
    CREATE TRIGGER message_text_removed AFTER DELETE ON message_text BEGIN
        INSERT INTO message_fts (message_fts, rowid, scope, terms)
        VALUES ('delete', old.id, old.scope, old.terms);
    END
    """,
)
_POSTGRESQL = (
    f"CREATE INDEX message_text_words ON message_text USING gin ({WORDS}) WITH (fastupdate = on)",
    # Plans do not depend on word frequencies, which are slow to compute.
    "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0",
    f"CREATE INDEX message_text_sampled ON message_text (profile, id) WHERE {SAMPLED}",
)
for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in _statements:
        listen(message_text, "after_create", DDL(_statement).execute_if(dialect=_dialect))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_MICROSECOND = 1024
"""Ids for each microsecond."""
_PAGE = 200
_MANY = 8
"""From this many messages it is faster to check afterwards which are missing."""

_INSERT = Prepared(insert_ignore(message_text))
_KNOWN = sa.select(message_text.c.id).where(
    message_text.c.session_id == bindparam("session_id"),
    message_text.c.sequence == bindparam("sequence"),
)
_SEQUENCES = sa.select(message_text.c.sequence).where(
    message_text.c.session_id == bindparam("session_id")
)
_REMOVE = sa.delete(message_text).where(
    message_text.c.session_id == bindparam("of_session"),
    message_text.c.sequence > bindparam("after"),
)
_PROFILE = sa.select(session.c.profile).where(session.c.id == bindparam("session_id"))
_STORED = (
    sa.select(message.c.sequence, message.c.role, message.c.content, message.c.created_at)
    .where(message.c.session_id == bindparam("session_id"), message.c.sequence > bindparam("after"))
    .order_by(message.c.sequence)
    .limit(_PAGE)
)


class Entry(Struct, frozen=True):
    """An indexed message."""

    sequence: int
    role: str
    terms: str
    created_at: datetime


def id_at(moment: datetime) -> int:
    """Return the first id for messages of a time."""
    return (moment - _EPOCH) // _MICROSECOND * _PER_MICROSECOND


def token(kind: str, value: str) -> str:
    """Return the scope token of a profile, session or role; no word looks like it."""
    return f"{kind}{hashlib.blake2s(value.encode(), digest_size=8).hexdigest()}"


def add(
    conn: Connection,
    profile: str,
    session_id: str,
    entries: Iterable[Entry],
    *,
    is_copy: bool = False,
) -> None:
    """Index a session's messages; copies are found only in searches of their session."""
    whose = "" if is_copy else f"{token('P', profile)} "
    within = token("S", session_id)
    has_places = conn.dialect.name == "sqlite"
    rows: list[dict[str, Any]] = [
        {
            "id": id_at(entry.created_at) + entry.sequence % _PER_MICROSECOND,
            "profile": profile,
            "session_id": session_id,
            "sequence": entry.sequence,
            "scope": " ".join(
                [f"{whose}{within}", token("R", entry.role)]
                + ([] if has_places else pairs(entry.terms))
            ),
            "terms": entry.terms,
        }
        for entry in entries
    ]
    if len(rows) >= _MANY:
        _INSERT.run_all(conn, rows)
        known = set(conn.scalars(_SEQUENCES, {"session_id": session_id}))
        rows = [row for row in rows if row["sequence"] not in known]
    for row in rows:
        # Another session may have a message of the same microsecond.
        while not _INSERT.run(conn, row) and not _is_known(conn, row):
            row["id"] += 1


def remove(conn: Connection, session_id: str, after: int = 0) -> None:
    """Remove the messages after a sequence from the index."""
    conn.execute(_REMOVE, {"of_session": session_id, "after": after})


def index_session(conn: Connection, session_id: str, *, is_copy: bool = False) -> None:
    """Index all messages of a session that are not indexed yet."""
    profile = conn.execute(_PROFILE, {"session_id": session_id}).scalar_one()
    after = 0
    while rows := conn.execute(_STORED, {"session_id": session_id, "after": after}).all():
        add(conn, profile, session_id, [_entry(row) for row in rows], is_copy=is_copy)
        after = rows[-1].sequence


def _is_known(conn: Connection, row: Mapping[str, Any]) -> bool:
    key = {"session_id": row["session_id"], "sequence": row["sequence"]}
    return conn.execute(_KNOWN, key).first() is not None


def _entry(row: sa.Row[*tuple[Any, ...]]) -> Entry:
    said = terms(searchable(json.loads(row.content)))
    return Entry(row.sequence, row.role, said, row.created_at)


EVERY_S = 1.0
"""Searches scan the pending list, which is short after a second."""

_SORT_IN = sa.text("SELECT gin_clean_pending_list('message_text_words')")

_log = logging.getLogger(__name__)


class SearchUpkeep:
    """Keeps PostgreSQL's pending list short."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run(self) -> None:
        """Merge until cancelled; SQLite merges with each message.

        If the database role does not own the tables, autovacuum merges, or a message that finds the
        list full.
        """
        if self._database.dialect == "sqlite":
            return
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self._database.write(sort_in)
            except ProgrammingError as error:
                _log.warning("PostgreSQL keeps its index of words alone: %s", error.orig)
                return
            except (DatabaseUnavailable, DBAPIError) as error:
                # Not urgent: a server that is down, or a standby, will be back.
                _log.debug("the index of words is kept later: %s", error)


def sort_in(conn: Connection) -> int:
    """Merge the pending list; return its number of pages."""
    return conn.execute(_SORT_IN).scalar_one()
