"""The traces that messages are sent in."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("outbox", sa.Column("traceparent", sa.String(55), nullable=True))
