"""Jobs, and their runs."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OPEN = sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING')")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "job",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("schedule_text", sa.Text, nullable=False),
        sa.Column("time_zone", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("run_at", UtcTime),
        sa.Column("interval_s", sa.BigInteger),
        sa.Column("anchor_at", UtcTime),
        sa.Column("cron", sa.Text),
        sa.Column("platform", sa.String(32)),
        sa.Column("chat_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("chat_type", sa.String(16), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("deleted_at", UtcTime),
        sa.Column("next_run_at", UtcTime),
    )
    op.create_index("job_by_next_run", "job", ["next_run_at"])
    op.create_index("job_by_profile", "job", ["profile"])
    op.create_table(
        "run",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("job_id", sa.String(128), sa.ForeignKey("job.id"), nullable=False),
        sa.Column("scheduled_for", UtcTime, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
        sa.Column("claimed_at", UtcTime, nullable=False),
        sa.Column("finished_at", UtcTime),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.UniqueConstraint("job_id", "scheduled_for", name="run_due_time"),
    )
    op.create_index("run_open", "run", ["lease_until"], sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.create_index(
        "run_open_of_job", "run", ["job_id"], sqlite_where=_OPEN, postgresql_where=_OPEN
    )
