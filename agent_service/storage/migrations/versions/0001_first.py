"""The agent's tables in 0.1.0."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

tables = sa.MetaData()
_LIVE = "state IN ('RUNNING', 'WAITING_TOOL', 'WAITING_PERSON', 'QUEUED_RESUME', 'CANCELLING')"
sa.Table(
    "approval_grant",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("tool", sa.String(length=64), nullable=False),
    sa.Column("binding", sa.String(length=64), nullable=False),
    sa.Column("decided_by", sa.Text(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("profile", "session_id", "tool", "binding"),
)
sa.Table(
    "budget_gate",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("passed", sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint("profile"),
)
sa.Table(
    "budget_limit",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("scope", sa.String(length=8), nullable=False),
    sa.Column("scope_id", sa.String(length=128), nullable=False),
    sa.Column("micro_usd", sa.BigInteger(), nullable=False),
    sa.Column("tokens", sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint("profile", "scope", "scope_id"),
)
sa.Table(
    "budget_reservation",
    tables,
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("name", sa.String(length=64), nullable=False),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("job_id", sa.String(length=128), nullable=False),
    sa.Column("day", sa.String(length=10), nullable=False),
    sa.Column("micro_usd", sa.BigInteger(), nullable=False),
    sa.Column("tokens", sa.BigInteger(), nullable=False),
    sa.Column("held_until", UtcTime()),
    sa.PrimaryKeyConstraint("turn_id", "name"),
)
sa.Table(
    "left_sandbox",
    tables,
    sa.Column("sandbox_id", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("endpoint", sa.Text(), nullable=False),
    sa.Column("left_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("sandbox_id"),
)
sa.Table(
    "memory_change",
    tables,
    sa.Column("key", sa.String(length=160), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("target", sa.String(length=16), nullable=False),
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    *(sa.Column(name, sa.Text(), nullable=False) for name in ("by", "before", "after")),
    sa.Column("made", sa.Boolean(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("key"),
)
sa.Table(
    "model_usage",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("model", sa.String(length=200), nullable=False),
    sa.Column("day", sa.String(length=10), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("job_id", sa.String(length=128), nullable=False),
    *(
        sa.Column(name, sa.BigInteger(), nullable=False)
        for name in (
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
            "cost_micro_usd",
            "call_count",
        )
    ),
    sa.PrimaryKeyConstraint("session_id", "model", "day"),
)
sa.Table(
    "profile_file",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("path", sa.Text(), nullable=False),
    sa.Column("data", sa.LargeBinary(), nullable=False),
    sa.Column("size_bytes", sa.BigInteger(), nullable=False),
    sa.Column("mode", sa.Integer(), nullable=False),
    sa.Column("modified_at_ns", sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint("profile", "path"),
)
sa.Table(
    "profile_lock",
    tables,
    sa.Column("id", sa.Text(), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "sealed_login",
    tables,
    sa.Column("id", sa.String(length=64), nullable=False),
    sa.Column("data", sa.LargeBinary(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "session",
    tables,
    sa.Column("id", sa.String(length=128), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("platform", sa.String(length=32), nullable=False),
    *(sa.Column(name, sa.Text(), nullable=False) for name in ("title", "system_prompt", "workdir")),
    sa.Column("sandbox_template", sa.String(length=64), server_default="", nullable=False),
    sa.Column("message_count", sa.BigInteger(), nullable=False),
    sa.Column("usage", sa.JSON(), nullable=False),
    sa.Column("compression", sa.JSON(), server_default="{}", nullable=False),
    sa.Column("parent_session_id", sa.String(length=128)),
    sa.Column("is_named", sa.Boolean(), server_default="0", nullable=False),
    sa.Column("revision", sa.BigInteger(), server_default="0", nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("updated_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "transcript_import",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("name", sa.String(length=255), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("problem", sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint("profile", "name"),
)
sa.Table(
    "message",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("sequence", sa.BigInteger(), nullable=False),
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("role", sa.String(length=12), nullable=False),
    sa.Column("content", sa.Text(), nullable=False),
    sa.Column("reasoning", sa.Text(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
    sa.PrimaryKeyConstraint("session_id", "sequence"),
)
sa.Table(
    "review",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("parent_session_id", sa.String(length=128), nullable=False),
    sa.Column("parent_turn_id", sa.String(length=128), nullable=False),
    sa.Column("through", sa.BigInteger(), nullable=False),
    sa.Column("revision", sa.BigInteger(), nullable=False),
    sa.Column("is_told", sa.Boolean(), nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"], ondelete="CASCADE"),
    sa.PrimaryKeyConstraint("session_id"),
    sa.UniqueConstraint("turn_id"),
)
sa.Table(
    "sandbox_binding",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("sandbox_id", sa.String(length=64), nullable=False),
    sa.Column("endpoint", sa.Text(), nullable=False),
    sa.Column("workspace_id", sa.String(length=64), server_default="", nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
    sa.PrimaryKeyConstraint("session_id"),
)
sa.Table(
    "session_state",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("name", sa.String(length=64), nullable=False),
    sa.Column("value", sa.JSON(), nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
    sa.PrimaryKeyConstraint("session_id", "name"),
)
sa.Table(
    "turn",
    tables,
    sa.Column("id", sa.String(length=128), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("kind", sa.String(length=16), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.Column("owner_endpoint", sa.Text(), nullable=False),
    sa.Column("attempt", sa.Integer(), nullable=False),
    sa.Column("stuck_at", sa.BigInteger(), nullable=False),
    sa.Column("stuck_count", sa.Integer(), nullable=False),
    sa.Column("cancel_requested", sa.Boolean(), nullable=False),
    sa.Column("request_digest", sa.String(length=64), nullable=False),
    sa.Column("request", sa.JSON(), nullable=False),
    sa.Column("usage", sa.JSON(), nullable=False),
    sa.Column("last_sequence", sa.BigInteger(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("finished_at", UtcTime()),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "undone_message",
    tables,
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("undo_id", sa.String(length=160), nullable=False),
    sa.Column("sequence", sa.BigInteger(), nullable=False),
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("role", sa.String(length=12), nullable=False),
    sa.Column("content", sa.Text(), nullable=False),
    sa.Column("reasoning", sa.Text(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("undone_at", UtcTime(), nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"]),
    sa.PrimaryKeyConstraint("session_id", "undo_id", "sequence"),
)
sa.Table(
    "watched_command",
    tables,
    sa.Column("id", sa.String(length=160), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("watched", sa.JSON(), nullable=False),
    sa.Column("progress", sa.JSON(), nullable=False),
    sa.Column("notice", sa.Text(), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.ForeignKeyConstraint(["session_id"], ["session.id"], ondelete="CASCADE"),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "approval",
    tables,
    sa.Column("id", sa.String(length=160), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("call_id", sa.String(length=160), nullable=False),
    sa.Column("tool", sa.String(length=64), nullable=False),
    sa.Column("subject", sa.Text(), nullable=False),
    sa.Column("binding", sa.String(length=64), server_default="", nullable=False),
    sa.Column("decision", sa.String(length=8)),
    sa.Column("decided_by", sa.Text(), nullable=False),
    sa.Column("answer", sa.Text(), server_default="", nullable=False),
    sa.Column("answer_id", sa.String(length=200), server_default="", nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("expires_at", UtcTime(), nullable=False),
    sa.Column("requester", sa.String(length=200), server_default="", nullable=False),
    sa.Column("platform", sa.String(length=32), server_default="", nullable=False),
    sa.ForeignKeyConstraint(["turn_id"], ["turn.id"]),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "event",
    tables,
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("sequence", sa.BigInteger(), nullable=False),
    sa.Column("event", sa.JSON(), nullable=False),
    sa.Column("attempt", sa.Integer(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.ForeignKeyConstraint(["turn_id"], ["turn.id"]),
    sa.PrimaryKeyConstraint("turn_id", "sequence"),
)
sa.Table(
    "message_text",
    tables,
    sa.Column(
        "id",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        autoincrement=False,
        nullable=False,
    ),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("sequence", sa.BigInteger(), nullable=False),
    sa.Column("scope", sa.Text(), nullable=False),
    sa.Column("terms", sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(
        ["session_id", "sequence"],
        ["message.session_id", "message.sequence"],
        name="message_text_message",
    ),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "step",
    tables,
    sa.Column("turn_id", sa.String(length=128), nullable=False),
    sa.Column("sequence", sa.Integer(), nullable=False),
    sa.Column("kind", sa.String(length=8), nullable=False),
    sa.Column("key", sa.String(length=160), nullable=False),
    sa.Column("state", sa.String(length=12), nullable=False),
    sa.Column("call", sa.JSON()),
    sa.Column("message_sequence", sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(["turn_id"], ["turn.id"]),
    sa.PrimaryKeyConstraint("turn_id", "sequence"),
    sa.UniqueConstraint("key"),
)

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
    """
    CREATE INDEX message_text_words ON message_text USING gin (array_to_tsvector(
        string_to_array(rtrim(scope || ' ' || terms), ' ') || ARRAY[
            'T53x' || to_hex(id >> 53), 'T50x' || to_hex(id >> 50), 'T47x' || to_hex(id >> 47),
            'T44x' || to_hex(id >> 44), 'T41x' || to_hex(id >> 41), 'T38x' || to_hex(id >> 38),
            'T35x' || to_hex(id >> 35)]
    )) WITH (fastupdate = on)
    """,
    "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0",
    "CREATE INDEX message_text_sampled ON message_text (profile, id) WHERE mod(id, 1021) = 0",
)


def upgrade() -> None:
    """Make the tables and their indexes."""
    tables.create_all(op.get_bind())
    op.create_index("budget_reservation_by_profile", "budget_reservation", ["profile"])
    op.create_index("memory_change_by_time", "memory_change", ["profile", "created_at", "key"])
    op.create_index("model_usage_by_day", "model_usage", ["profile", "day"])
    op.create_index(
        "model_usage_by_job",
        "model_usage",
        ["profile", "job_id"],
        sqlite_where=sa.text("job_id <> ''"),
        postgresql_where=sa.text("job_id <> ''"),
    )
    op.create_index("session_by_parent", "session", ["parent_session_id"])
    op.create_index("session_by_use", "session", ["profile", "updated_at"])
    op.create_index("review_untold", "review", ["is_told"])
    op.create_index("turn_by_session", "turn", ["session_id", "created_at"])
    op.create_index("turn_by_state", "turn", ["state", "lease_until"])
    op.create_index(
        "turn_live",
        "turn",
        ["session_id"],
        unique=True,
        sqlite_where=sa.text(_LIVE),
        postgresql_where=sa.text(_LIVE),
    )
    op.create_index("watched_command_by_session", "watched_command", ["session_id"])
    op.create_index("approval_by_turn", "approval", ["turn_id"])
    op.create_index("approval_open", "approval", ["decision", "expires_at"])
    op.create_index(
        "message_text_by_message", "message_text", ["session_id", "sequence"], unique=True
    )
    for statement in _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL:
        op.execute(statement)
