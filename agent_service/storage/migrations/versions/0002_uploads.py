"""Messages have files."""

import sqlalchemy as sa
from alembic import op

from services.database.sql import UtcTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the tables of files."""
    op.create_table(
        "upload",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("length_bytes", sa.BigInteger(), nullable=False),
        sa.Column("uploaded_at", UtcTime(), nullable=False),
    )
    op.create_index("upload_by_age", "upload", ["uploaded_at"])
    op.create_table(
        "session_file",
        sa.Column("session_id", sa.String(128), sa.ForeignKey("session.id"), primary_key=True),
        sa.Column("path", sa.String(160), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("workspace_id", sa.String(64), nullable=False, server_default=""),
    )
    op.create_index("session_file_by_digest", "session_file", ["sha256"])
