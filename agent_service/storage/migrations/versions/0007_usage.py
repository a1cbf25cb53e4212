"""What model calls used, by session, model and day, and the budgets that they are held to."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_SUMS = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_micro_usd",
    "call_count",
)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "model_usage",
        sa.Column("session_id", sa.String(128), primary_key=True),
        sa.Column("model", sa.String(200), primary_key=True),
        sa.Column("day", sa.String(10), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _SUMS),
    )
    op.create_index("model_usage_by_day", "model_usage", ["profile", "day"])
    op.create_index(
        "model_usage_by_job",
        "model_usage",
        ["profile", "job_id"],
        sqlite_where=sa.text("job_id <> ''"),
        postgresql_where=sa.text("job_id <> ''"),
    )
    op.create_table(
        "budget_limit",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("scope", sa.String(8), primary_key=True),
        sa.Column("scope_id", sa.String(128), primary_key=True),
        sa.Column("micro_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "budget_reservation",
        sa.Column("turn_id", sa.String(128), primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("micro_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    op.create_index("budget_reservation_by_profile", "budget_reservation", ["profile"])
    op.create_table(
        "budget_gate",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("passed", sa.BigInteger, nullable=False),
    )
