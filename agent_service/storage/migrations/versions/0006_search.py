"""The index of what was said, filled with what there is; branches, names and undone messages."""

import sqlalchemy as sa
from alembic import op

from agent_service.storage.search_index import index_session

revision = "0006"
down_revision = "0005"

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
    "CREATE INDEX message_text_words ON message_text USING gin (vector) WITH (fastupdate = off)",
)


def upgrade() -> None:
    """Make the columns and the index."""
    op.add_column("session", sa.Column("parent_session_id", sa.String(128)))
    named = sa.Column("is_named", sa.Boolean, nullable=False, server_default="0")
    op.add_column("session", named)
    revised = sa.Column("revision", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("session", revised)
    op.create_index("session_by_parent", "session", ["parent_session_id"])
    op.create_table(
        "message_text",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id", "sequence"],
            ["message.session_id", "message.sequence"],
            name="message_text_message",
        ),
    )
    by_message = ["session_id", "sequence"]
    op.create_index("message_text_by_message", "message_text", by_message, unique=True)
    op.create_index("message_text_by_time", "message_text", ["profile", "id"])
    op.create_table(
        "transcript_import",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
    )
    conn = op.get_bind()
    statements = _SQLITE if conn.dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        op.execute(statement)
    for session_id in conn.execute(sa.text("SELECT id FROM session ORDER BY id")).scalars().all():
        index_session(conn, session_id)
