"""Who has asked for what waits for a decision, and from where."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

_WAITING = sa.text(
    "SELECT approval.id, turn.request FROM approval JOIN turn ON turn.id = approval.turn_id"
    " WHERE approval.decision IS NULL"
)
_FILL = sa.text("UPDATE approval SET requester = :requester, platform = :platform WHERE id = :id")


def upgrade() -> None:
    """Add the columns, which replicas of the version before leave empty, and fill what is open."""
    for name, length in (("requester", 200), ("platform", 32)):
        column = sa.Column(name, sa.String(length), nullable=False, server_default="")
        op.add_column("approval", column)
    conn = op.get_bind()
    for approval_id, request in conn.execute(_WAITING).all():
        stored: dict[str, Any] = json.loads(request) if isinstance(request, str) else request
        origin: dict[str, str] = stored.get("origin", {})
        asker = {
            "requester": origin.get("user_id", "")[:200],
            "platform": origin.get("platform", "")[:32],
        }
        conn.execute(_FILL, {"id": approval_id, **asker})
