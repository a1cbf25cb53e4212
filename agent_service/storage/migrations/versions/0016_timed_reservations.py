"""Reservations of calls outside of turns, which end with their time."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add when one ends by itself."""
    op.add_column("budget_reservation", sa.Column("held_until", UtcTime, nullable=True))
