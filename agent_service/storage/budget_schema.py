"""The tables of budgets: limits that somebody set, and what running model calls may cost."""

from sqlalchemy import BigInteger, Column, Index, String, Table

from agent_service.storage.schema import metadata
from services.database import UtcTime

budget_limit = Table(
    "budget_limit",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("scope", String(8), primary_key=True),
    Column("scope_id", String(128), primary_key=True),
    Column("micro_usd", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)
"""`scope_id` is empty where every session, job or day of the profile has the limit; 0 is none."""

budget_reservation = Table(
    "budget_reservation",
    metadata,
    Column("turn_id", String(128), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("profile", String(64), nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("job_id", String(128), nullable=False),
    Column("day", String(10), nullable=False),
    Column("micro_usd", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("held_until", UtcTime),
    Index("budget_reservation_by_profile", "profile"),
)
"""`name` tells calls that a turn makes side by side from each other; empty is the one that goes on
with the conversation. Counts while the turn's owner of that epoch holds its lease, so that nobody
has to release what a killed owner had reserved. A call outside of turns has an id of its own in
place of a turn's, and counts until `held_until`."""

budget_gate = Table(
    "budget_gate",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("passed", BigInteger, nullable=False),
)
"""The row that whoever reserves for a profile changes first, so that one does after the other."""
