"""The gateway's tables in 0.1.0."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

tables = sa.MetaData()
sa.Table(
    "account",
    tables,
    sa.Column("id", sa.String(length=320), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.Column("cursor", sa.Text(), server_default="", nullable=False),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "attachment",
    tables,
    sa.Column("delivery_id", sa.String(length=128), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("sha256", sa.String(length=64), nullable=False),
    sa.Column("length_bytes", sa.BigInteger(), nullable=False),
    sa.Column("data", sa.LargeBinary(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("delivery_id", "profile", "sha256"),
)
sa.Table(
    "chat_session",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_key", sa.String(length=1024), nullable=False),
    sa.Column("session_id", sa.String(length=128), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("updated_at", UtcTime(), nullable=False),
    sa.Column("last_used_at", UtcTime()),
    sa.Column("busy_mode", sa.String(length=16)),
    sa.Column("ended_session_id", sa.String(length=128)),
    sa.Column("ended_why", sa.String(length=8)),
    sa.Column("is_review_asked", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.PrimaryKeyConstraint("profile", "session_key"),
)
sa.Table(
    "inbox",
    tables,
    sa.Column(
        "sequence",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        autoincrement=True,
        nullable=False,
    ),
    sa.Column("platform", sa.String(length=32), nullable=False),
    sa.Column("account_id", sa.String(length=255), nullable=False),
    sa.Column("event_id", sa.String(length=512), nullable=False),
    sa.Column("message_id", sa.String(length=255)),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("session_key", sa.String(length=1024), nullable=False),
    sa.Column("payload", sa.JSON(), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("session_id", sa.String(length=128)),
    sa.Column("turn_id", sa.String(length=100)),
    sa.Column("received_at", UtcTime(), nullable=False),
    sa.Column("closed_at", UtcTime()),
    sa.PrimaryKeyConstraint("sequence"),
    sa.UniqueConstraint("platform", "event_id"),
    sa.UniqueConstraint("turn_id"),
)
sa.Table(
    "outbox",
    tables,
    sa.Column(
        "sequence",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        autoincrement=True,
        nullable=False,
    ),
    sa.Column("delivery_id", sa.String(length=128), nullable=False),
    sa.Column("part", sa.Integer(), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("platform", sa.String(length=32), nullable=False),
    sa.Column("account_id", sa.String(length=255), nullable=False),
    sa.Column("chat_id", sa.String(length=255), nullable=False),
    sa.Column("thread_id", sa.String(length=255), nullable=False),
    sa.Column("kind", sa.String(length=16), nullable=False),
    sa.Column("payload", sa.JSON(), nullable=False),
    sa.Column("digest", sa.String(length=64), nullable=False),
    sa.Column("version", sa.Integer(), nullable=False),
    sa.Column("state", sa.String(length=20), nullable=False),
    sa.Column("uncertain", sa.Boolean(), nullable=False),
    sa.Column("attempts", sa.Integer(), nullable=False),
    sa.Column("due_since", UtcTime(), nullable=False),
    sa.Column("next_attempt_at", UtcTime(), nullable=False),
    sa.Column("platform_message_id", sa.String(length=255)),
    sa.Column("last_error", sa.Text(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("sent_at", UtcTime()),
    sa.Column("traceparent", sa.String(length=55)),
    sa.PrimaryKeyConstraint("sequence"),
    sa.UniqueConstraint("delivery_id", "part"),
)


def upgrade() -> None:
    """Make the tables and their indexes."""
    tables.create_all(op.get_bind())
    op.create_index("attachment_by_age", "attachment", ["created_at"])
    op.create_index("chat_session_by_session", "chat_session", ["session_id"])
    op.create_index("chat_session_by_use", "chat_session", ["profile", "last_used_at"])
    op.create_index("inbox_by_chat", "inbox", ["session_key", "sequence"])
    op.create_index("inbox_by_session", "inbox", ["session_id", "state"])
    op.create_index("inbox_closed", "inbox", ["closed_at"])
    op.create_index("inbox_open", "inbox", ["state", "platform", "account_id"])
    op.create_index("outbox_done", "outbox", ["state", "sent_at"])
    op.create_index("outbox_due", "outbox", ["platform", "account_id", "state", "next_attempt_at"])
