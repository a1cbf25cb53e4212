"""The scheduler's tables in 0.1.0."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0001"
down_revision = None

tables = sa.MetaData()
sa.Table(
    "home_import",
    tables,
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("imported_at", UtcTime(), nullable=False),
    sa.PrimaryKeyConstraint("profile"),
)
sa.Table(
    "job",
    tables,
    sa.Column("id", sa.String(length=128), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("kind", sa.String(length=16), server_default="agent", nullable=False),
    sa.Column("spec", sa.Text(), nullable=False),
    sa.Column("schedule", sa.Text(), nullable=False),
    sa.Column("request_digest", sa.String(length=64), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("deleted_at", UtcTime()),
    sa.Column("next_run_at", UtcTime()),
    sa.Column("may_overlap", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("waits", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("run_count", sa.BigInteger(), server_default="0", nullable=False),
    sa.Column("paused_at", UtcTime()),
    sa.Column("updated_at", UtcTime()),
    sa.Column("update_id", sa.String(length=128)),
    sa.Column("last_run", sa.Text()),
    sa.PrimaryKeyConstraint("id"),
)
sa.Table(
    "run",
    tables,
    sa.Column("id", sa.String(length=128), nullable=False),
    sa.Column("job_id", sa.String(length=128), nullable=False),
    sa.Column("scheduled_for", UtcTime(), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.Column("claimed_at", UtcTime(), nullable=False),
    sa.Column("finished_at", UtcTime()),
    sa.Column("output", sa.Text(), nullable=False),
    sa.Column("error", sa.Text(), nullable=False),
    sa.Column("attempt", sa.BigInteger(), server_default="1", nullable=False),
    sa.Column("not_before", UtcTime()),
    sa.Column("started_at", UtcTime()),
    sa.Column("is_requested", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("is_silent", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("delivery_error", sa.Text()),
    sa.Column("dry_run", sa.Boolean(), server_default=sa.false(), nullable=False),
    sa.Column("stop_until", UtcTime()),
    sa.Column("traceparent", sa.String(length=55)),
    sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("job_id", "scheduled_for", name="run_due_time"),
)


def upgrade() -> None:
    """Make the tables and their indexes."""
    tables.create_all(op.get_bind())
    op.create_index(
        "job_by_next_run",
        "job",
        ["next_run_at"],
        sqlite_where=sa.text("NOT waits"),
        postgresql_where=sa.text("NOT waits"),
    )
    op.create_index("job_by_profile", "job", ["profile"])
    op.create_index(
        "run_open",
        "run",
        ["lease_until"],
        sqlite_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"),
        postgresql_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"),
    )
    op.create_index(
        "run_open_of_job",
        "run",
        ["job_id"],
        sqlite_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"),
        postgresql_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"),
    )
    op.create_index(
        "run_unheld",
        "run",
        ["scheduled_for"],
        sqlite_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING') AND owner IS NULL"),
        postgresql_where=sa.text("state IN ('CLAIMED', 'RUNNING', 'DELIVERING') AND owner IS NULL"),
    )
    op.create_index(
        "run_unwanted",
        "run",
        ["stop_until"],
        sqlite_where=sa.text("stop_until IS NOT NULL"),
        postgresql_where=sa.text("stop_until IS NOT NULL"),
    )
