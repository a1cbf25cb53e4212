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
    # What its runs do.
    Column("kind", String(16), nullable=False, server_default="agent"),
    # What people say of it, and when it is due, as JSON.
    *required(Text, "spec", "schedule"),
    Column("request_digest", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("deleted_at", UtcTime),
    Column("next_run_at", UtcTime),
    # Its runs need not wait for one another; of what people say, what is searched for.
    Column("may_overlap", Boolean, nullable=False, server_default=false()),
    # A run of it is open that its next one must not overlap; until then it is not due.
    Column("waits", Boolean, nullable=False, server_default=false()),
    Column("run_count", BigInteger, nullable=False, server_default="0"),
    Column("paused_at", UtcTime),
    Column("updated_at", UtcTime),
    # By what request, where it has said.
    Column("update_id", String(128)),
    # Of the run that ended last, as JSON.
    Column("last_run", Text),
    partial_index("job_by_next_run", "next_run_at", where=text("NOT waits")),
    Index("job_by_profile", "profile"),
)

home_import = Table(
    "home_import",
    metadata,
    # Whose home's jobs have been taken over, or are not to be.
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
    # Nobody owns a run that has ended or that its owner has let go of.
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
    # Of the curator: it only says what it would do.
    Column("dry_run", Boolean, nullable=False, server_default=false()),
    # Of a run that was cancelled as its turn may have started: until when that may still happen.
    # None where there is nothing to stop.
    Column("stop_until", UtcTime),
    # Names the span of its first attempt, for whoever takes it over.
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
"""Whether somebody has to go on with a run; written out so that the partial indexes are used."""

of_agent = job.c.kind == "agent"
"""Whether it is a job of people, and not the curator."""
not_waiting = text("NOT job.waits")
"""Whether a job runs when it is due; as it stands in the index."""
