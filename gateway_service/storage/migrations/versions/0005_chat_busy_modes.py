"""What chats have chosen that their messages do to the work in progress."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0005"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "chat_busy_mode",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("session_key", sa.String(400), primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("chosen_at", UtcTime, nullable=False),
    )
