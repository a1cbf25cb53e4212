"""The table of the curator's runs."""

from sqlalchemy import BigInteger, Boolean, Column, Index, String, Table, Text, text

from scheduler_service.storage.schema import metadata
from services.database.sql import UtcTime, partial_index

_open = text("state = 'OPEN'")

curator_run = Table(
    "curator_run",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    # Nobody owns a run that has ended or that its owner has let go of.
    Column("owner", String(200)),
    Column("epoch", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("lease_until", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Column("finished_at", UtcTime),
    # What the model has answered, and why it has not; null until it was asked.
    Column("plan", Text),
    Column("plan_failure", Text),
    # The report, once there is one, and what jobs' skills were called before and after, as JSON.
    Column("report", Text),
    Column("renamed", Text),
    Column("error", Text, nullable=False),
    partial_index("curator_run_open", "profile", where=_open, unique=True),
    Index("curator_run_by_profile", "profile", "created_at"),
)
"""A profile has at most one open run, so that one curator at a time works on its library."""

roll_back = Table(
    "roll_back",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("profile", String(64), nullable=False),
    # The request that began it: others that went on with it are stored, too, each with its own id.
    Column("restore_id", String(128), nullable=False),
    Column("backup_id", String(64), nullable=False),
    Column("asked_at", UtcTime, nullable=False),
    # When jobs had the names back, too, and what came of it, as JSON.
    Column("finished_at", UtcTime),
    Column("report", Text),
    partial_index("roll_back_open", "profile", where=text("finished_at IS NULL")),
)
"""To which backup it is gone back, which nobody could tell later: going back makes one more."""
