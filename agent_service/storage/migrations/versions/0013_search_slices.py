"""Messages are found by slices of time on PostgreSQL; FTS5 writes each page anew less often."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Connection

from agent_service.storage.search_marks import pairs

revision = "0013"
down_revision = "0012"
# The index in its old form: no release has had it.
contracts = "0.1.0"

_PAGE = 1000
_SQLITE = "INSERT INTO message_fts (message_fts, rank) VALUES ('usermerge', 8)"
_PUT_ASIDE = (
    "CREATE TEMPORARY TABLE message_text_aside ON COMMIT DROP AS "
    "SELECT id, profile, session_id, sequence, scope, terms FROM message_text"
)
_WORDS = """
CREATE INDEX message_text_words ON message_text USING gin (array_to_tsvector(
  string_to_array(rtrim(scope || ' ' || terms), ' ') || ARRAY[
  'T53x' || to_hex(id >> 53), 'T50x' || to_hex(id >> 50), 'T47x' || to_hex(id >> 47),
  'T44x' || to_hex(id >> 44), 'T41x' || to_hex(id >> 41), 'T38x' || to_hex(id >> 38),
  'T35x' || to_hex(id >> 35)])) WITH (fastupdate = off)"""
_NO_STATISTICS = "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0"
_SAMPLED = "CREATE INDEX message_text_sampled ON message_text (profile, id) WHERE mod(id, 1021) = 0"
_ASIDE = sa.text(
    "SELECT * FROM message_text_aside WHERE id > :after ORDER BY id LIMIT :most"
).bindparams(most=_PAGE)


def upgrade() -> None:
    """Make the indexes anew, and on PostgreSQL the table, half of which is no longer needed."""
    conn = op.get_bind()
    if conn.dialect.name == "sqlite":
        op.drop_index("message_text_by_time", "message_text")
        op.execute(_SQLITE)
        return
    # In the order of whoever stores a message, so that none is stored beside the copy.
    op.execute("LOCK TABLE message, message_text IN ACCESS EXCLUSIVE MODE")
    op.execute(_PUT_ASIDE)
    op.execute("CREATE UNIQUE INDEX message_text_aside_id ON message_text_aside (id)")
    op.drop_table("message_text")
    _store_again(conn, _new_table())
    op.create_index(
        "message_text_by_message", "message_text", ["session_id", "sequence"], unique=True
    )
    for statement in (_WORDS, _NO_STATISTICS, _SAMPLED):
        op.execute(statement)


def _new_table() -> sa.Table:
    return op.create_table(
        "message_text",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
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


def _store_again(conn: Connection, table: sa.Table) -> None:
    """In the order of time, each with the pairs of its words."""
    after = -(1 << 63)
    while rows := conn.execute(_ASIDE, {"after": after}).mappings().all():
        conn.execute(sa.insert(table), [{**row, "scope": _marked(row)} for row in rows])
        after = rows[-1]["id"]


def _marked(row: sa.RowMapping) -> str:
    own = [name for name in row["scope"].split() if not name.startswith("Q")]
    return " ".join(own + pairs(row["terms"]))
