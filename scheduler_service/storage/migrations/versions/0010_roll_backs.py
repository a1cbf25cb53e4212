"""To which backup of a library it is gone back, from when it is asked for until it is done."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "roll_back",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("restore_id", sa.String(128), nullable=False),
        sa.Column("backup_id", sa.String(64), nullable=False),
        sa.Column("asked_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime),
        sa.Column("report", sa.Text),
    )
    is_open = sa.text("finished_at IS NULL")
    op.create_index(
        "roll_back_open", "roll_back", ["profile"], sqlite_where=is_open, postgresql_where=is_open
    )
