"""What persons have allowed for a session or for always."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table, and the column that says what a question is bound to."""
    op.create_table(
        "approval_grant",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("session_id", sa.String(128), primary_key=True),
        sa.Column("tool", sa.String(64), primary_key=True),
        sa.Column("binding", sa.String(64), primary_key=True),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.add_column(
        "approval", sa.Column("binding", sa.String(64), nullable=False, server_default="")
    )
    # What was allowed for a session meant every command of it; from now on each is asked for.
    op.execute("UPDATE session SET approved_tools = '[]'")
