"""Several reservations of a turn, by name. What is held at the time is let go."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
# The table in its old form: no release has had it.
contracts = "0.1.0"


def upgrade() -> None:
    """Make the table anew: it holds nothing that outlives the calls that run."""
    op.drop_table("budget_reservation")
    op.create_table(
        "budget_reservation",
        sa.Column("turn_id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("session_id", sa.String(128), nullable=False),
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("micro_usd", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    op.create_index("budget_reservation_by_profile", "budget_reservation", ["profile"])
