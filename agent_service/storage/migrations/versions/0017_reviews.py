"""Turns that look back at a session."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "review",
        sa.Column(
            "session_id",
            sa.String(128),
            # A replica of the version before deletes sessions without knowing of these.
            sa.ForeignKey("session.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("turn_id", sa.String(128), nullable=False, unique=True),
        sa.Column("parent_session_id", sa.String(128), nullable=False),
        sa.Column("parent_turn_id", sa.String(128), nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("is_told", sa.Boolean, nullable=False),
    )
    op.create_index("review_untold", "review", ["is_told"])
