"""The first schema."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

_OPEN = "state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"


def upgrade() -> None:
    """Make the tables."""
    _jobs()
    _runs()
    op.create_table(
        "home_import",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("imported_at", UtcTime, nullable=False),
    )


def _jobs() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False, server_default="agent"),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("deleted_at", UtcTime),
        sa.Column("next_run_at", UtcTime),
        sa.Column("may_overlap", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("waits", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("run_count", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("paused_at", UtcTime),
        sa.Column("updated_at", UtcTime),
        sa.Column("update_id", sa.String(128)),
        sa.Column("last_run", sa.Text),
    )
    _partial("job_by_next_run", "job", "next_run_at", "NOT waits")
    op.create_index("job_by_profile", "job", ["profile"])


def _runs() -> None:
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
        sa.Column("attempt", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("not_before", UtcTime),
        sa.Column("started_at", UtcTime),
        sa.Column("is_requested", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("is_silent", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("delivery_error", sa.Text),
        sa.Column("dry_run", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("stop_until", UtcTime),
        sa.Column("traceparent", sa.String(55)),
        sa.UniqueConstraint("job_id", "scheduled_for", name="run_due_time"),
    )
    _partial("run_open", "run", "lease_until", _OPEN)
    _partial("run_open_of_job", "run", "job_id", _OPEN)
    _partial("run_unheld", "run", "scheduled_for", f"{_OPEN} AND owner IS NULL")
    _partial("run_unwanted", "run", "stop_until", "stop_until IS NOT NULL")


def _partial(name: str, table: str, column: str, where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, [column], sqlite_where=condition, postgresql_where=condition)
