"""The search index: its table, and the full-text index of each database.

SQLite keeps an FTS5 table with triggers. FTS5 merges a little with each message, because automatic
merges would make one message in thousands wait: eight segments of a size at a time, since every
page is rewritten once for each size, and eight pages at most.

PostgreSQL has a GIN index of each message's words. The tsvector is not stored: it is twice as long
as the text.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
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

from agent_service.records.search_query import searchable, terms
from agent_service.storage.schema import message, metadata, session
from services.database import Prepared, insert_ignore

WORDS = "array_to_tsvector(string_to_array(terms, ' '))"
"""What PostgreSQL indexes of a message: its words without positions."""

message_text = Table(
    "message_text",
    metadata,
    Column(
        "id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False
    ),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("role", String(12), nullable=False),
    Column("is_copy", Boolean, nullable=False),
    Column("terms", Text, nullable=False),
    ForeignKeyConstraint(
        ["session_id", "sequence"],
        ["message.session_id", "message.sequence"],
        name="message_text_message",
    ),
    Index("message_text_by_message", "session_id", "sequence", unique=True),
)
"""`id` grows with the message's time; copies are found only in searches of their session."""

_SQLITE = (
    """
    CREATE VIRTUAL TABLE message_fts USING fts5 (
        terms, content='message_text', content_rowid='id', tokenize='ascii'
    )
    """,
    "INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 0)",
    "INSERT INTO message_fts (message_fts, rank) VALUES ('crisismerge', 64)",
    "INSERT INTO message_fts (message_fts, rank) VALUES ('usermerge', 8)",
    """
    CREATE TRIGGER message_text_added AFTER INSERT ON message_text BEGIN
        INSERT INTO message_fts (rowid, terms) VALUES (new.id, new.terms);
        INSERT INTO message_fts (message_fts, rank) VALUES ('merge', 8);
    END
    """,
    """
    CREATE TRIGGER message_text_removed AFTER DELETE ON message_text BEGIN
        INSERT INTO message_fts (message_fts, rowid, terms) VALUES ('delete', old.id, old.terms);
    END
    """,
)
_POSTGRESQL = (
    # Without a pending list, which a message that finds it full would have to merge.
    f"CREATE INDEX message_text_words ON message_text USING gin ({WORDS}) WITH (fastupdate = off)",
    # Plans do not depend on word frequencies, which are slow to compute.
    "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0",
    "CREATE INDEX message_text_by_time ON message_text (profile, id)",
)
for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in _statements:
        listen(message_text, "after_create", DDL(_statement).execute_if(dialect=_dialect))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_MICROSECOND = 1024
"""Ids for each microsecond."""
_MOST_ID = (1 << 63) - 1
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
    """Return the first id for messages of a time, or the id nearest to it."""
    at = (moment - _EPOCH) // _MICROSECOND * _PER_MICROSECOND
    return max(-_MOST_ID, min(at, _MOST_ID))


def add(
    conn: Connection,
    profile: str,
    session_id: str,
    entries: Iterable[Entry],
    *,
    is_copy: bool = False,
) -> None:
    """Index a session's messages."""
    rows: list[dict[str, Any]] = [
        {
            "id": id_at(entry.created_at) + entry.sequence % _PER_MICROSECOND,
            "profile": profile,
            "session_id": session_id,
            "sequence": entry.sequence,
            "role": entry.role,
            "is_copy": is_copy,
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


def add_copies(conn: Connection, session_id: str) -> None:
    """Index all messages of a new branch."""
    profile = conn.execute(_PROFILE, {"session_id": session_id}).scalar_one()
    after = 0
    while rows := conn.execute(_STORED, {"session_id": session_id, "after": after}).all():
        add(conn, profile, session_id, [_entry(row) for row in rows], is_copy=True)
        after = rows[-1].sequence


def _is_known(conn: Connection, row: Mapping[str, Any]) -> bool:
    key = {"session_id": row["session_id"], "sequence": row["sequence"]}
    return conn.execute(_KNOWN, key).first() is not None


def _entry(row: sa.Row[*tuple[Any, ...]]) -> Entry:
    said = terms(searchable(json.loads(row.content)))
    return Entry(row.sequence, row.role, said, row.created_at)
