"""Commands in the background that somebody is to be told of."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "watched_command",
        sa.Column("id", sa.String(160), primary_key=True),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column(
            "session_id",
            sa.String(128),
            # A replica of the version before deletes sessions without knowing of these.
            sa.ForeignKey("session.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("sandbox_id", sa.String(64), nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("wanted", sa.JSON, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("notice", sa.Text, nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_index("watched_command_by_session", "watched_command", ["session_id"])
