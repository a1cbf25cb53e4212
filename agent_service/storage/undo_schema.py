"""The table of what was taken back: neither sent nor found any more, but kept to be looked up."""

from sqlalchemy import BigInteger, Column, ForeignKey, String, Table, Text

from agent_service.storage.schema import metadata
from services.database.sql import UtcTime

UNDO_ID_CHARS = 160

undone_message = Table(
    "undone_message",
    metadata,
    Column("session_id", String(128), ForeignKey("session.id"), primary_key=True),
    Column("undo_id", String(UNDO_ID_CHARS), primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("turn_id", String(128), nullable=False),
    Column("role", String(12), nullable=False),
    Column("content", Text, nullable=False),
    Column("reasoning", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("undone_at", UtcTime, nullable=False),
)
"""Messages as they were. `undo_id` is what took them back, such as the id of the turn that says
their question again; their sequences may have been given to others since."""
