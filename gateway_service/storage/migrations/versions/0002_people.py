"""People who are let in by codes, channels, and how accounts are connected."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the tables and columns."""
    op.create_table(
        "pairing",
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        *(
            sa.Column(name, sa.String(255), nullable=False)
            for name in ("user_name", "account_id", "chat_id", "approved_by")
        ),
        *(sa.Column(name, sa.LargeBinary(), nullable=False) for name in ("salt", "code_digest")),
        *(sa.Column(name, UtcTime()) for name in ("requested_at", "expires_at", "approved_at")),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("profile", "platform", "user_id"),
    )
    op.create_table(
        "pairing_lock",
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("wrong_count", sa.Integer(), nullable=False),
        sa.Column("tried_at", UtcTime()),
        sa.PrimaryKeyConstraint("profile"),
    )
    op.create_table(
        "channel",
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("chat_id", sa.String(255), nullable=False),
        sa.Column("thread_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("chat_type", sa.String(16), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("profile", "platform", "chat_id", "thread_id"),
    )
    op.create_table(
        "home_channel",
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("platform", sa.String(32), nullable=False),
        sa.Column("chat_id", sa.String(255), nullable=False),
        sa.Column("thread_id", sa.String(255), nullable=False),
        sa.Column("chosen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("profile", "platform"),
    )
    op.create_table(
        "home_import",
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("imported_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("profile"),
    )
    op.add_column("account", sa.Column("connected_at", UtcTime()))
    op.add_column("account", sa.Column("rate_limited_until", UtcTime()))
    op.add_column("account", sa.Column("problem", sa.Text()))
