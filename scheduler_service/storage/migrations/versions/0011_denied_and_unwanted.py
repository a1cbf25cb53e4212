"""What is denied to a job's runs, and turns that nobody wants any more."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the index."""
    op.add_column("job", sa.Column("denied", sa.Text))
    op.add_column("run", sa.Column("stop_until", UtcTime))
    unwanted = sa.text("stop_until IS NOT NULL")
    op.create_index(
        "run_unwanted",
        "run",
        ["stop_until"],
        sqlite_where=unwanted,
        postgresql_where=unwanted,
    )
