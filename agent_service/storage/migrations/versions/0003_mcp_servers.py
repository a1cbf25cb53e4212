"""MCP servers are pinned, and the probabilities of tokens are kept."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the table of what servers offer, and the column of tokens."""
    op.create_table(
        "mcp_server",
        sa.Column("profile", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("catalog", sa.JSON(), nullable=False),
    )
    for table in ("message", "undone_message"):
        op.add_column(table, sa.Column("logprobs", sa.Text(), nullable=False, server_default=""))
