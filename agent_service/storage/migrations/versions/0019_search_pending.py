"""PostgreSQL notes words down first; `search_upkeep` sorts them into their index afterwards."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Change how the index is kept."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX message_text_words SET (fastupdate = on)")
