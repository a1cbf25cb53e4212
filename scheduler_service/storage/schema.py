"""The scheduler's tables: jobs and their runs, batches and their items."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    false,
    literal_column,
    text,
)

from scheduler_service.jobs import OPEN_STATES
from services.database.leases import lease_columns
from services.database.sql import UtcTime, partial_index, required

metadata = MetaData()

job = Table(
    "job",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("kind", String(16), nullable=False, server_default="agent"),
    # JSON.
    *required(Text, "spec", "schedule"),
    Column("request_digest", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("deleted_at", UtcTime),
    Column("next_run_at", UtcTime),
    # Copied from the spec for queries.
    Column("may_overlap", Boolean, nullable=False, server_default=false()),
    # Not due while an open run exists that the next one must not overlap.
    Column("waits", Boolean, nullable=False, server_default=false()),
    Column("run_count", BigInteger, nullable=False, server_default="0"),
    Column("paused_at", UtcTime),
    Column("updated_at", UtcTime),
    # The latest update request that had an id.
    Column("update_id", String(128)),
    # JSON of the run that ended last.
    Column("last_run", Text),
    partial_index("job_by_next_run", "next_run_at", where=text("NOT waits")),
    Index("job_by_profile", "profile"),
)

home_import = Table(
    "home_import",
    metadata,
    # A profile whose home's jobs have been imported or declined.
    Column("profile", String(64), primary_key=True),
    Column("imported_at", UtcTime, nullable=False),
)

_open = text("state IN ({})".format(", ".join(f"'{state}'" for state in OPEN_STATES)))
_unheld = text(f"{_open.text} AND owner IS NULL")

run = Table(
    "run",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("job_id", String(128), ForeignKey("job.id"), nullable=False),
    Column("scheduled_for", UtcTime, nullable=False),
    Column("state", String(16), nullable=False),
    # No owner if the run has ended or was released.
    *lease_columns(),
    Column("claimed_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    *required(Text, "output", "error"),
    Column("attempt", BigInteger, nullable=False, server_default="1"),
    Column("not_before", UtcTime),
    Column("started_at", UtcTime),
    Column("is_requested", Boolean, nullable=False, server_default=false()),
    Column("is_silent", Boolean, nullable=False, server_default=false()),
    Column("delivery_error", Text),
    Column("dry_run", Boolean, nullable=False, server_default=false()),
    # Until when the turn of a cancelled run may still start; NULL if there is nothing to stop.
    Column("stop_until", UtcTime),
    # The span of its first attempt.
    Column("traceparent", String(55)),
    UniqueConstraint("job_id", "scheduled_for", name="run_due_time"),
    partial_index("run_open", "lease_until", where=_open),
    partial_index("run_open_of_job", "job_id", where=_open),
    partial_index("run_unheld", "scheduled_for", where=_unheld),
    partial_index("run_unwanted", "stop_until", where=text("stop_until IS NOT NULL")),
)

open_run = run.c.state.in_(
    bindparam("open_states", OPEN_STATES, expanding=True, literal_execute=True)
)
"""Whether a run is open; written out so that the partial indexes apply."""

of_agent = job.c.kind == "agent"
"""Whether a job belongs to users, not to the curator."""
not_waiting = text("NOT job.waits")
"""As written in the index."""

USAGE = (
    *("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"),
    *("cost_micro_usd", "call_count", "cache_write_tokens"),
)
"""What all attempts of a batch's items have used."""

batch = Table(
    "batch",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("name", String(80), nullable=False),
    Column("state", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    # JSON.
    *required(Text, "options", "reason"),
    Column("created_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    Column("resume_at", UtcTime),
    # How often in a row it has waited for the provider.
    *required(BigInteger, "waits", "item_count", "done_count", "failed_count", "success_count"),
    *required(BigInteger, *USAGE),
    partial_index(
        "batch_by_name", "profile", "name", where=text("state <> 'UPLOADING'"), unique=True
    ),
    partial_index("batch_active", "id", where=text("state IN ('RUNNING', 'WAITING')")),
)

_pending = text("state = 'PENDING'")
_held = text("state = 'PENDING' AND owner IS NOT NULL")

batch_item = Table(
    "batch_item",
    metadata,
    Column("id", String(80), primary_key=True),
    Column("batch_id", String(64), ForeignKey("batch.id"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("item_id", String(128), nullable=False),
    Column("state", String(16), nullable=False),
    # No owner unless it is worked on.
    *lease_columns(),
    Column("attempt", BigInteger, nullable=False),
    Column("started_at", UtcTime),
    Column("finished_at", UtcTime),
    # JSON.
    Column("prompt", Text, nullable=False),
    Column("result", Text),
    UniqueConstraint("batch_id", "position", name="batch_item_position"),
    UniqueConstraint("batch_id", "item_id", name="batch_item_name"),
    partial_index("batch_item_pending", "batch_id", "position", where=_pending),
    partial_index("batch_item_held", "batch_id", where=_held),
)

pending_item = batch_item.c.state == literal_column("'PENDING'")
"""Whether an item has not ended; written out so that the partial indexes apply."""
