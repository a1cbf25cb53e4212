"""The first schema."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

_LIVE = sa.text(
    "state IN ('RUNNING', 'WAITING_TOOL', 'WAITING_PERSON', 'QUEUED_RESUME', 'CANCELLING')"
)
_OF_JOB = sa.text("job_id <> ''")
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
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
      'T35x' || to_hex(id >> 35)])) WITH (fastupdate = on)
    """,
    "ALTER INDEX message_text_words ALTER COLUMN 1 SET STATISTICS 0",
    "CREATE INDEX message_text_sampled ON message_text (profile, id) WHERE mod(id, 1021) = 0",
)


def upgrade() -> None:
    """Make the tables."""
    _sessions()
    _turns()
    _messages()
    _search()
    _approvals()
    _sandboxes()
    _budgets()
    _profiles()
    _memory()


def _sessions() -> None:
    op.create_table(
        "session",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("system_prompt", sa.Text, nullable=False),
        sa.Column("workdir", sa.Text, nullable=False),
        sa.Column("sandbox_template", sa.String(64), nullable=False, server_default=""),
        sa.Column("message_count", sa.BigInteger, nullable=False),
        sa.Column("usage", sa.JSON, nullable=False),
        sa.Column("parent_session_id", sa.String(128)),
        sa.Column("is_named", sa.Boolean, nullable=False, server_default="0"),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
    )
    op.create_index("session_by_parent", "session", ["parent_session_id"])
    op.create_index("session_by_use", "session", ["profile", "updated_at"])
    op.create_table(
        "session_state",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
    )
    op.create_table(
        "compaction",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("pruned", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
    op.create_table(
        "transcript_import",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
    )


def _turns() -> None:
    op.create_table(
        "turn",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("owner_endpoint", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("stuck_at", sa.BigInteger, nullable=False),
        sa.Column("stuck_count", sa.Integer, nullable=False),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("usage", sa.JSON, nullable=False),
        sa.Column("last_sequence", sa.BigInteger, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime),
    )
    op.create_index("turn_by_session", "turn", ["session_id", "created_at"])
    op.create_index("turn_by_state", "turn", ["state", "lease_until"])
    op.create_index(
        "turn_live", "turn", ["session_id"], unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE
    )
    op.create_table(
        "step",
        sa.Column("turn_id", sa.String(128), sa.ForeignKey("turn.id"), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("key", sa.String(160), nullable=False, unique=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("call", sa.JSON),
        sa.Column("message_sequence", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "event",
        sa.Column("turn_id", sa.String(128), sa.ForeignKey("turn.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )


def _messages() -> None:
    op.create_table(
        "message",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("turn_id", sa.String(128), nullable=False),
        sa.Column("role", sa.String(12), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("reasoning", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_table(
        "undone_message",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("undo_id", sa.String(160), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("turn_id", sa.String(128), nullable=False),
        sa.Column("role", sa.String(12), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("reasoning", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("undone_at", UtcTime, nullable=False),
    )


def _search() -> None:
    op.create_table(
        "message_text",
        sa.Column("id", _Id, primary_key=True, autoincrement=False),
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
    op.create_index(
        "message_text_by_message", "message_text", ["session_id", "sequence"], unique=True
    )
    statements = _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        op.execute(statement)


def _approvals() -> None:
    op.create_table(
        "approval",
        sa.Column("id", sa.String(160), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("turn_id", sa.String(128), sa.ForeignKey("turn.id"), nullable=False),
        sa.Column("call_id", sa.String(160), nullable=False),
        sa.Column("tool", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("binding", sa.String(64), nullable=False, server_default=""),
        sa.Column("decision", sa.String(8)),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("requester", sa.String(200), nullable=False, server_default=""),
        sa.Column("platform", sa.String(32), nullable=False, server_default=""),
    )
    op.create_index("approval_by_turn", "approval", ["turn_id"])
    op.create_index("approval_open", "approval", ["decision", "expires_at"])
    op.create_table(
        "approval_grant",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("session_id", sa.String(128), primary_key=True),
        sa.Column("tool", sa.String(64), primary_key=True),
        sa.Column("binding", sa.String(64), primary_key=True),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )


def _sandboxes() -> None:
    op.create_table(
        "sandbox_binding",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("sandbox_id", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("workspace_id", sa.String(64), nullable=False, server_default=""),
    )
    op.create_table(
        "left_sandbox",
        sa.Column("sandbox_id", sa.String(64), primary_key=True),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("left_at", UtcTime, nullable=False),
    )
    op.create_table(
        "watched_command",
        sa.Column("id", sa.String(160), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column(
            "session_id",
            sa.String(128),
            sa.ForeignKey("session.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("sandbox_id", sa.String(64), nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("wanted", sa.JSON, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("notice", sa.Text, nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_index("watched_command_by_session", "watched_command", ["session_id"])


def _budgets() -> None:
    op.create_table(
        "model_usage",
        sa.Column("session_id", sa.String(128), primary_key=True),
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost_micro_usd", sa.BigInteger, nullable=False),
        sa.Column("call_count", sa.BigInteger, nullable=False),
    )
    op.create_index("model_usage_by_day", "model_usage", ["profile", "day"])
    op.create_index(
        "model_usage_by_job",
        "model_usage",
        ["profile", "job_id"],
        sqlite_where=_OF_JOB,
        postgresql_where=_OF_JOB,
    )
    op.create_table(
        "budget_limit",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("scope", sa.String(8), primary_key=True),
        sa.Column("scope_id", sa.String(128), primary_key=True),
        sa.Column("micro_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "budget_reservation",
        sa.Column("turn_id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("micro_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("held_until", UtcTime),
    )
    op.create_index("budget_reservation_by_profile", "budget_reservation", ["profile"])
    op.create_table(
        "budget_gate",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("passed", sa.BigInteger, nullable=False),
    )


def _profiles() -> None:
    op.create_table(
        "profile_file",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.Integer, nullable=False),
        sa.Column("modified_at_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "profile_lock",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
    )


def _memory() -> None:
    op.create_table(
        "memory_change",
        sa.Column("key", sa.String(160), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("target", sa.String(16), nullable=False),
        sa.Column("turn_id", sa.String(128), nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("before", sa.Text, nullable=False),
        sa.Column("after", sa.Text, nullable=False),
        sa.Column("made", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_index("memory_change_by_time", "memory_change", ["profile", "created_at", "key"])
    op.create_table(
        "review",
        sa.Column(
            "session_id",
            sa.String(128),
            sa.ForeignKey("session.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("turn_id", sa.String(128), nullable=False, unique=True),
        sa.Column("parent_session_id", sa.String(128), nullable=False),
        sa.Column("parent_turn_id", sa.String(128), nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("is_told", sa.Boolean, nullable=False),
    )
    op.create_index("review_untold", "review", ["is_told"])
    op.create_table(
        "sealed_login",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
