"""How a job's runs are made, how its last one went, and how far a run has come."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    for column in (
        sa.Column("options", sa.Text),
        sa.Column("may_overlap", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("run_count", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("paused_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.Column("last_run_for", UtcTime),
        sa.Column("last_state", sa.String(16)),
        sa.Column("last_error", sa.Text),
        sa.Column("last_delivery_error", sa.Text),
    ):
        op.add_column("job", column)
    for column in (
        sa.Column("attempt", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("not_before", UtcTime),
        sa.Column("started_at", UtcTime),
        sa.Column("is_requested", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("is_silent", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("delivery_error", sa.Text),
    ):
        op.add_column("run", column)
