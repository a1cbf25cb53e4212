"""The first schema."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

_LIVE = sa.text(
    "state IN ('RUNNING', 'WAITING_TOOL', 'WAITING_PERSON', 'QUEUED_RESUME', 'CANCELLING')"
)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "session",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("system_prompt", sa.Text, nullable=False),
        sa.Column("workdir", sa.Text, nullable=False),
        sa.Column("message_count", sa.BigInteger, nullable=False),
        sa.Column("usage", sa.JSON, nullable=False),
        sa.Column("approved_tools", sa.JSON, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
    )
    op.create_index("session_by_use", "session", ["profile", "updated_at"])
    _turns()
    _conversation()
    _waiting()


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
    op.create_index(
        "turn_live",
        "turn",
        ["session_id"],
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    )
    op.create_index("turn_by_state", "turn", ["state", "lease_until"])
    op.create_index("turn_by_session", "turn", ["session_id", "created_at"])
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


def _conversation() -> None:
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
        "event",
        sa.Column("turn_id", sa.String(128), sa.ForeignKey("turn.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )


def _waiting() -> None:
    op.create_table(
        "approval",
        sa.Column("id", sa.String(160), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("turn_id", sa.String(128), sa.ForeignKey("turn.id"), nullable=False),
        sa.Column("call_id", sa.String(160), nullable=False),
        sa.Column("tool", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("decision", sa.String(8)),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
    )
    op.create_index("approval_by_turn", "approval", ["turn_id"])
    op.create_index("approval_open", "approval", ["decision", "expires_at"])
    op.create_table(
        "sandbox_binding",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("sandbox_id", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
    )
    op.create_table(
        "session_state",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
    )
