"""The table of what model calls used, which outlives the sessions that it is about."""

from sqlalchemy import BigInteger, Column, Index, String, Table, text

from agent_service.storage.schema import metadata
from services.database.sql import partial_index

MODEL_CHARS = 200

model_usage = Table(
    "model_usage",
    metadata,
    Column("session_id", String(128), primary_key=True),
    Column("model", String(MODEL_CHARS), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("profile", String(64), nullable=False),
    Column("job_id", String(128), nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("cost_micro_usd", BigInteger, nullable=False),
    Column("call_count", BigInteger, nullable=False),
    Index("model_usage_by_day", "profile", "day"),
    partial_index("model_usage_by_job", "profile", "job_id", where=text("job_id <> ''")),
)
"""Sums for a session, a model and a day (YYYY-MM-DD in the agent's time zone): a session has one
turn at a time, so that no two of them ever wait for the same row."""
