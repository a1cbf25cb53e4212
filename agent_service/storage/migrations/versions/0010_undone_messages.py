"""What was taken back, which is kept."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0010"
down_revision = "0008"


def upgrade() -> None:
    """Make the table."""
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
