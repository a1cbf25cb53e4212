"""The tables of profiles that are kept in the database, for replicas that share no disk."""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, String, Table, Text

from agent_service.storage.schema import metadata
from services.database.sql import UtcTime

profile_file = Table(
    "profile_file",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("path", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("mode", Integer, nullable=False),
    Column("modified_at_ns", BigInteger, nullable=False),
)
"""The files of a profile by their paths in its home. `modified_at_ns` grows with each change."""

profile_lock = Table(
    "profile_lock",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", String(200)),
    Column("epoch", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("lease_until", UtcTime),
)
"""Who changes which file, `profile/path`, at the moment."""
