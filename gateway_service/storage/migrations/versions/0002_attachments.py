"""Files that go with deliveries."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "attachment",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("delivery_id", sa.String(128), nullable=False),
        sa.Column("profile", sa.String(64), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("length_bytes", sa.BigInteger, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
    op.create_index("attachment_by_delivery", "attachment", ["delivery_id"])
    op.create_index("attachment_by_age", "attachment", ["created_at"])
    op.create_table(
        "attachment_piece",
        sa.Column("attachment_id", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
