"""The durable events of turns."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.storage.schema import event
from services.database import Prepared

_INSERT_EVENT = Prepared(sa.insert(event))
_EVENTS = (
    sa.select(event)
    .where(event.c.turn_id == bindparam("id"), event.c.sequence > bindparam("after"))
    .order_by(event.c.sequence)
)


def insert_events(conn: Connection, turn_id: str, recorded: Sequence[events.Recorded]) -> None:
    """Store durable events."""
    rows: list[dict[str, Any]] = []
    for item in recorded:
        assert not isinstance(item.event, events.Live), "live events are not stored"
        kind, payload = events.encode(item.event)
        rows.append(
            {
                "turn_id": turn_id,
                "sequence": item.sequence,
                "kind": kind,
                "payload": payload,
                "attempt": item.attempt,
                "created_at": item.time,
            }
        )
    _INSERT_EVENT.run_all(conn, rows)


def events_after(conn: Connection, turn_id: str, after: int) -> list[events.Recorded]:
    """The turn's durable events after a sequence."""
    return [
        events.Recorded(
            row.sequence, row.created_at, row.attempt, events.decode(row.kind, row.payload)
        )
        for row in conn.execute(_EVENTS, {"id": turn_id, "after": after})
    ]
