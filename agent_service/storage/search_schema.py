"""The index of what was said: its table, and what each kind of database looks words up with.

SQLite has an FTS5 table beside it that triggers keep. FTS5 merges its pieces a little at each
message, as merging by itself makes one of thousands wait: eight pieces of a size at a time, as each
page is written anew once for each size, and eight pages at most.

PostgreSQL has an index of an expression, into which `search_upkeep` sorts what is new. The words
themselves are not kept in its form beside the text: that is twice as long as the text, and nothing
is read of it that the index does not tell.
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
from agent_service.storage.search_marks import SPANS

_TIMES = ", ".join(f"'T{bits}x' || to_hex(id >> {bits})" for bits in SPANS)
WORDS = f"array_to_tsvector(string_to_array(rtrim(scope || ' ' || terms), ' ') || ARRAY[{_TIMES}])"
"""What PostgreSQL's index has of a message: its words and tokens without their places, and when."""
SAMPLED = "mod(id, 1021) = 0"
"""True of one of so many messages, whichever: how they are spread over time is seen from them."""

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
    # Its plans do not depend on how frequent words are, which takes long to find out.
    "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0",
    f"CREATE INDEX message_text_sampled ON message_text (profile, id) WHERE {SAMPLED}",
)
for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in _statements:
        listen(message_text, "after_create", DDL(_statement).execute_if(dialect=_dialect))
