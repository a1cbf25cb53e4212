"""Profiles in the database."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "profile_file",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.Integer, nullable=False),
        sa.Column("modified_at_ns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "profile_lock",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.String(200)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease_until", UtcTime),
    )
    op.create_table(
        "profile_incoming",
        sa.Column("import_id", sa.String(64), primary_key=True),
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
    )
