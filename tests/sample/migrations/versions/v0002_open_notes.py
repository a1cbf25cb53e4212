"""A note has a state and a time; a folder has a unique name."""

import sqlalchemy as sa
from alembic import op

from services.database import UtcTime

revision = "0002"
down_revision = "0001"

_open = sa.text("state = 'OPEN'")


def upgrade() -> None:
    # On SQLite this makes the table anew, while notes refer to it.
    with op.batch_alter_table("folder") as folder:
        folder.alter_column(
            "name", existing_type=sa.String(20), type_=sa.String(80), nullable=False
        )
        folder.create_unique_constraint("folder_name_key", ["name"])
    with op.batch_alter_table("note") as note:
        note.add_column(sa.Column("state", sa.String(8), nullable=False, server_default="OPEN"))
        note.add_column(sa.Column("at", UtcTime))
        note.create_index(
            "note_open", ["folder_id"], unique=True, sqlite_where=_open, postgresql_where=_open
        )
