"""What turns add to: their durable events, their steps, and the messages of their sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.calls import StepState
from agent_service.live_turn import LiveTurn
from agent_service.requests import REVIEW
from agent_service.storage import search_index
from agent_service.storage.schema import event, message, step
from agent_service.storage.search_index import Entry
from agent_service.transition import NewMessage, NewStep
from services.database import Prepared

_INSERT_EVENT = Prepared(sa.insert(event))
_INSERT_MESSAGE = Prepared(sa.insert(message))
_INSERT_STEP = Prepared(sa.insert(step))
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
        rows.append(
            {
                "turn_id": turn_id,
                "sequence": item.sequence,
                "event": item.event,
                "attempt": item.attempt,
                "created_at": item.time,
            }
        )
    _INSERT_EVENT.run_all(conn, rows)


def events_after(conn: Connection, turn_id: str, after: int) -> list[events.Recorded]:
    """The turn's durable events after a sequence."""
    return [
        events.Recorded(row.sequence, row.created_at, row.attempt, row.event)
        for row in conn.execute(_EVENTS, {"id": turn_id, "after": after})
    ]


def insert_messages(
    conn: Connection,
    turn: LiveTurn | sa.Row[Any],
    messages: Sequence[NewMessage],
    now: datetime,
) -> None:
    """Store what a turn adds to its session; what is said in a review is not found."""
    rows = [
        {
            "session_id": turn.session_id,
            "sequence": new.sequence,
            "turn_id": turn.id,
            "role": new.role,
            "content": new.content.decode(),
            "reasoning": new.reasoning.replace("\0", ""),
            "created_at": now,
        }
        for new in messages
    ]
    _INSERT_MESSAGE.run_all(conn, rows)
    if turn.kind != REVIEW:
        entries = [Entry(new.sequence, new.role, new.terms, now) for new in messages]
        search_index.add(conn, turn.profile, turn.session_id, entries)


def insert_steps(conn: Connection, turn_id: str, steps: Sequence[NewStep]) -> None:
    """Store what a turn intends."""
    rows = [
        {
            "turn_id": turn_id,
            "sequence": new.sequence,
            "kind": new.kind,
            "key": f"{turn_id}:{new.sequence}",
            "state": StepState.INTENT,
            "call": None if new.call is None else new.call.call,
            "message_sequence": new.message_sequence,
        }
        for new in steps
    ]
    _INSERT_STEP.run_all(conn, rows)
