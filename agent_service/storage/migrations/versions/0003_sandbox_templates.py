"""The template of which a session's sandboxes are made."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    template = sa.Column("sandbox_template", sa.String(64), nullable=False, server_default="")
    op.add_column("session", template)
