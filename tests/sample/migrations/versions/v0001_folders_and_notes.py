"""Folders and notes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "folder", sa.Column("id", sa.String(40), primary_key=True), sa.Column("name", sa.String(20))
    )
    op.create_table(
        "note",
        sa.Column("folder_id", sa.String(40), sa.ForeignKey("folder.id"), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.CheckConstraint("sequence > 0", name="note_sequence"),
    )
