"""By what request a job was changed last, and which jobs wait for a run, by index."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the index."""
    op.add_column("job", sa.Column("update_id", sa.String(128)))
    waiting = sa.text("waits")
    op.create_index("job_waiting", "job", ["id"], sqlite_where=waiting, postgresql_where=waiting)
