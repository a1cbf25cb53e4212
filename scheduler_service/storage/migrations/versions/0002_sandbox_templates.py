"""The template of which the sandboxes of a job's runs are made."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("job", sa.Column("sandbox_template", sa.String(64)))
