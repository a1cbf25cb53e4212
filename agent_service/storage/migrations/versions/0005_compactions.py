"""How the messages of long sessions are sent."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "compaction",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("pruned", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
