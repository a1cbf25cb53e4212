"""The profiles whose home's jobs have been taken over."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0007"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "home_import",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("imported_at", UtcTime, nullable=False),
    )
