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
sa.Table(
    "batch",
    tables,
    sa.Column("id", sa.String(length=64), nullable=False),
    sa.Column("profile", sa.String(length=64), nullable=False),
    sa.Column("name", sa.String(length=80), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("digest", sa.String(length=64), nullable=False),
    sa.Column("options", sa.Text(), nullable=False),
    sa.Column("reason", sa.Text(), nullable=False),
    sa.Column("created_at", UtcTime(), nullable=False),
    sa.Column("finished_at", UtcTime()),
    sa.Column("resume_at", UtcTime()),
    sa.Column("waits", sa.BigInteger(), nullable=False),
    sa.Column("item_count", sa.BigInteger(), nullable=False),
    sa.Column("done_count", sa.BigInteger(), nullable=False),
    sa.Column("failed_count", sa.BigInteger(), nullable=False),
    sa.Column("success_count", sa.BigInteger(), nullable=False),
    sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
    sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
    sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
    sa.Column("reasoning_tokens", sa.BigInteger(), nullable=False),
    sa.Column("cost_micro_usd", sa.BigInteger(), nullable=False),
    sa.Column("call_count", sa.BigInteger(), nullable=False),
    sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint("id"),
    sa.Index(
        "batch_by_name",
        "profile",
        "name",
        unique=True,
        sqlite_where=sa.text("state <> 'UPLOADING'"),
        postgresql_where=sa.text("state <> 'UPLOADING'"),
    ),
)
sa.Table(
    "batch_item",
    tables,
    sa.Column("id", sa.String(length=80), nullable=False),
    sa.Column("batch_id", sa.String(length=64), nullable=False),
    sa.Column("position", sa.BigInteger(), nullable=False),
    sa.Column("item_id", sa.String(length=128), nullable=False),
    sa.Column("state", sa.String(length=16), nullable=False),
    sa.Column("owner", sa.String(length=200)),
    sa.Column("epoch", sa.BigInteger(), nullable=False),
    sa.Column("version", sa.BigInteger(), nullable=False),
    sa.Column("lease_until", UtcTime()),
    sa.Column("attempt", sa.BigInteger(), nullable=False),
    sa.Column("started_at", UtcTime()),
    sa.Column("finished_at", UtcTime()),
    sa.Column("prompt", sa.Text(), nullable=False),
    sa.Column("result", sa.Text()),
    sa.ForeignKeyConstraint(["batch_id"], ["batch.id"]),
    sa.PrimaryKeyConstraint("id"),
    sa.UniqueConstraint("batch_id", "position", name="batch_item_position"),
    sa.UniqueConstraint("batch_id", "item_id", name="batch_item_name"),
)


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def upgrade() -> None:
    """Make the tables and their indexes."""
    tables.create_all(op.get_bind())
    op.create_index("job_by_profile", "job", ["profile"])
    is_open = "state IN ('CLAIMED', 'RUNNING', 'DELIVERING')"
    _index("job_by_next_run", "job", ["next_run_at"], "NOT waits")
    _index("run_open", "run", ["lease_until"], is_open)
    _index("run_open_of_job", "run", ["job_id"], is_open)
    _index("run_unheld", "run", ["scheduled_for"], f"{is_open} AND owner IS NULL")
    _index("run_unwanted", "run", ["stop_until"], "stop_until IS NOT NULL")
    _index("batch_active", "batch", ["id"], "state IN ('RUNNING', 'WAITING')")
    pending = "state = 'PENDING'"
    _index("batch_item_pending", "batch_item", ["batch_id", "position"], pending)
    _index("batch_item_held", "batch_item", ["batch_id"], f"{pending} AND owner IS NOT NULL")
