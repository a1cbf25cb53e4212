"""The trace of a run, which goes on where another scheduler does."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the column."""
    op.add_column("run", sa.Column("traceparent", sa.String(55), nullable=True))
