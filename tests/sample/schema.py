"""A small schema with one of each thing that a service's schema has."""

import sqlalchemy as sa

from services.database import UtcTime, partial_index

metadata = sa.MetaData()
_open = sa.text("state = 'OPEN'")

folder = sa.Table(
    "folder",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", sa.String(80), nullable=False, unique=True),
)
note = sa.Table(
    "note",
    metadata,
    sa.Column("folder_id", sa.String(40), sa.ForeignKey("folder.id"), primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(8), nullable=False, server_default="OPEN"),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("at", UtcTime),
    sa.CheckConstraint("sequence > 0", name="note_sequence"),
    partial_index("note_open", "folder_id", where=_open, unique=True),
)
