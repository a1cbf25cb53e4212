"""The index of what was said: its table, and what each kind of database looks words up with.

SQLite has an FTS5 table beside it that triggers keep, PostgreSQL a column that it computes. FTS5
merges its pieces a little at each message, as merging by itself makes one of thousands wait.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
)
from sqlalchemy.event import listen

from agent_service.storage.schema import metadata

message_text = Table(
    "message_text",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=False,
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
    Index("message_text_by_time", "profile", "id"),
)
"""`id` grows with the time of the message; `scope` has the tokens of whose it is, and what."""

_SQLITE = (
    """
    CREATE VIRTUAL TABLE message_fts USING fts5 (
        scope, terms, content='message_text', content_rowid='id', tokenize='ascii'
    )
    """,
    "INSERT INTO message_fts (message_fts, rank) VALUES ('automerge', 0)",
    "INSERT INTO message_fts (message_fts, rank) VALUES ('crisismerge', 64)",
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
    """
    ALTER TABLE message_text ADD COLUMN vector tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('simple'::regconfig, terms) || array_to_tsvector(string_to_array(scope, ' '))
    ) STORED
    """,
    # Without a list of what is pending, which somebody's message would have to wait for.
    "CREATE INDEX message_text_words ON message_text USING gin (vector) WITH (fastupdate = off)",
)
for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in _statements:
        listen(message_text, "after_create", DDL(_statement).execute_if(dialect=_dialect))
