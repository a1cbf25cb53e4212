"""The scheduler's tables: jobs, and a row for each due time that got a run."""

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
