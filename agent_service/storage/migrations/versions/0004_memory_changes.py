"""What was changed in memories."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
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
