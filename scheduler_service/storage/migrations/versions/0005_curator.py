"""The curator's runs."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime
from services.database.sql import partial_index

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "curator_run",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime),
        sa.Column("plan", sa.Text),
        sa.Column("plan_failure", sa.Text),
        sa.Column("report", sa.Text),
        sa.Column("renamed", sa.Text),
        sa.Column("error", sa.Text, nullable=False),
        partial_index("curator_run_open", "profile", where=sa.text("state = 'OPEN'"), unique=True),
        sa.Index("curator_run_by_profile", "profile", "created_at"),
    )
