"""What waits, over all profiles: turns for their place, and questions for a person."""

from datetime import datetime

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.events import CLARIFY
from agent_service.storage.schema import approval, turn

_QUEUED = sa.select(sa.func.min(turn.c.created_at)).where(turn.c.state == "QUEUED")
_ASKED = sa.select(sa.func.count(), sa.func.min(approval.c.created_at)).where(
    approval.c.decision.is_(None), approval.c.tool != CLARIFY
)


class Waiting(Struct, frozen=True):
    """How much waits, and since when."""

    queued_at: datetime | None
    """When the oldest turn came that has not begun."""
    approvals: int
    asked_at: datetime | None
    """When the oldest question was asked that nobody has decided on."""


def waiting(conn: Connection) -> Waiting:
    """What waits now."""
    count, asked_at = conn.execute(_ASKED).one()
    return Waiting(conn.scalar(_QUEUED), count, asked_at)
