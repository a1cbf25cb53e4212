"""The first schema."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

# SQLite counts up only what it calls INTEGER.
_Sequence = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _inbox()
    _outbox()
    _attachments()
    _accounts()
    _chats()


def _inbox() -> None:
    op.create_table(
        "inbox",
        sa.Column("sequence", _Sequence, primary_key=True, autoincrement=True),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("event_id", sa.String(160), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_key", sa.String(400), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("session_id", sa.String(128)),
        sa.Column("turn_id", sa.String(100), unique=True),
        sa.Column("received_at", UtcTime, nullable=False),
        sa.Column("closed_at", UtcTime),
        sa.UniqueConstraint("platform", "event_id"),
    )
    op.create_index("inbox_open", "inbox", ["state", "platform", "account_id"])
    op.create_index("inbox_by_session", "inbox", ["session_id", "state"])
    op.create_index("inbox_closed", "inbox", ["closed_at"])


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("sequence", _Sequence, primary_key=True, autoincrement=True),
        sa.Column("delivery_id", sa.String(128), nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("chat_id", sa.String(128), nullable=False),
        sa.Column("thread_id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("uncertain", sa.Boolean, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_since", UtcTime, nullable=False),
        sa.Column("next_attempt_at", UtcTime, nullable=False),
        sa.Column("platform_message_id", sa.String(64)),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("sent_at", UtcTime),
        sa.Column("traceparent", sa.String(55)),
        sa.UniqueConstraint("delivery_id", "part"),
    )
    op.create_index("outbox_due", "outbox", ["platform", "account_id", "state", "next_attempt_at"])
    op.create_index("outbox_done", "outbox", ["state", "sent_at"])


def _attachments() -> None:
    op.create_table(
        "attachment",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("delivery_id", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("length_bytes", sa.BigInteger, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_index("attachment_by_delivery", "attachment", ["delivery_id"])
    op.create_index("attachment_by_age", "attachment", ["created_at"])
    op.create_table(
        "attachment_piece",
        sa.Column("attachment_id", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _accounts() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
    )


def _chats() -> None:
    op.create_table(
        "chat_session",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("session_key", sa.String(400), primary_key=True),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.Column("last_used_at", UtcTime),
    )
    op.create_index("chat_session_by_session", "chat_session", ["session_id"])
    op.create_index("chat_session_by_use", "chat_session", ["profile", "last_used_at"])
    op.create_table(
        "chat_busy_mode",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("session_key", sa.String(400), primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("chosen_at", UtcTime, nullable=False),
    )
    op.create_table(
        "session_reset",
        sa.Column("new_session_id", sa.String(128), primary_key=True),
        sa.Column("old_session_id", sa.String(128), nullable=False),
        sa.Column("session_key", sa.String(400), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("why", sa.String(8), nullable=False),
        sa.Column("review_id", sa.String(100), nullable=False),
        sa.Column("reset_at", UtcTime, nullable=False),
        sa.Column("is_review_asked", sa.Boolean, nullable=False),
        sa.Column("is_told", sa.Boolean, nullable=False),
    )
    op.create_index("session_reset_by_time", "session_reset", ["reset_at"])
