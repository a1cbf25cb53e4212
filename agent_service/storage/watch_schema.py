"""The table of commands that somebody is to be told of."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    String,
    Table,
    Text,
)

from agent_service.storage.schema import metadata
from services.database.sql import UtcTime

watched_command = Table(
    "watched_command",
    metadata,
    Column("id", String(160), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    Column("sandbox_id", String(64), nullable=False),
    Column("command", Text, nullable=False),
    Column("request", JSON, nullable=False),
    Column("wanted", JSON, nullable=False),
    Column("progress", JSON, nullable=False),
    Column("notice", Text, nullable=False),
    Column("owner", String(200)),
    Column("epoch", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("lease_until", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    Index("watched_command_by_session", "session_id"),
)
"""`id` is the command's key. `request` is what turns that tell of it have of the turn that began
it. `notice` is what is being told, empty where nothing is; it is stored together with the
`progress` that it stands for, so that it is told once."""
