"""Sandboxes that sessions have left behind, and the workspace that a session's sandbox has."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table and the column."""
    op.create_table(
        "left_sandbox",
        sa.Column("sandbox_id", sa.String(64), primary_key=True),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("left_at", UtcTime, nullable=False),
    )
    workspace = sa.Column("workspace_id", sa.String(64), nullable=False, server_default="")
    op.add_column("sandbox_binding", workspace)
