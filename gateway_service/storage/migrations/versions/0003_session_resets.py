"""Chats that go on in a new session by themselves."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add when a chat was last used, and make the table."""
    op.add_column("chat_session", sa.Column("last_used_at", UtcTime, nullable=True))
    op.create_index("chat_session_by_use", "chat_session", ["profile", "last_used_at"])
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
