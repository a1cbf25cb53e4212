"""The inbox in the database: stored once for each event, open until answered."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.messages import Source, TurnOrder
from gateway_service.storage.schema import inbox
from services.database import insert_ignore

_INSERT = insert_ignore(inbox)
_BY_EVENT = sa.select(inbox).where(
    inbox.c.platform == bindparam("platform"), inbox.c.event_id == bindparam("event_id")
)
_ACCEPTED = (
    sa.select(inbox)
    .where(inbox.c.state == "ACCEPTED", inbox.c.platform == bindparam("platform"))
    .order_by(inbox.c.sequence)
)
_LIVE_TURNS = (
    sa.select(inbox.c.turn_id)
    .where(
        inbox.c.state == "ACCEPTED",
        inbox.c.session_id == bindparam("session_id"),
        inbox.c.profile == bindparam("profile"),
    )
    .order_by(inbox.c.sequence)
)
_CLOSE = (
    sa.update(inbox)
    .where(inbox.c.turn_id == bindparam("of_turn"), inbox.c.state == "ACCEPTED")
    .values(state="CLOSED", closed_at=bindparam("now"))
)


def accept(
    conn: Connection, order: TurnOrder, event_id: str, now: datetime
) -> tuple[TurnOrder, bool]:
    """Store a message whose turn is known; returns what is stored, and whether it is open."""
    row = {
        "platform": order.source.platform,
        "account_id": "",
        "event_id": event_id,
        "profile": order.profile,
        "kind": "message",
        "payload": _payload(order),
        "state": "ACCEPTED",
        "session_id": order.session_id,
        "turn_id": order.turn_id,
        "received_at": now,
    }
    if conn.execute(_INSERT, row).rowcount:
        return order, True
    known = conn.execute(_BY_EVENT, {"platform": order.source.platform, "event_id": event_id}).one()
    return order_of(known), known.state == "ACCEPTED"


def accepted(conn: Connection, platform: str) -> Sequence[TurnOrder]:
    """The platform's messages whose turns have not ended, oldest first."""
    return [order_of(row) for row in conn.execute(_ACCEPTED, {"platform": platform})]


def live_turns(conn: Connection, profile: str, session_id: str) -> Sequence[str]:
    """The session's turns that have not ended, oldest first."""
    found = conn.execute(_LIVE_TURNS, {"session_id": session_id, "profile": profile})
    return found.scalars().all()


def close(conn: Connection, turn_id: str, now: datetime) -> None:
    """Note that a turn's message has been answered."""
    conn.execute(_CLOSE, {"of_turn": turn_id, "now": now})


def order_of(row: sa.Row[Any]) -> TurnOrder:
    """The turn that a row asks for."""
    payload = row.payload
    return TurnOrder(
        turn_id=row.turn_id,
        profile=row.profile,
        session_id=row.session_id,
        source=Source(**payload["source"]),
        text=payload["text"],
        workdir=payload.get("workdir", ""),
    )


def _payload(order: TurnOrder) -> dict[str, Any]:
    return {"source": asdict(order.source), "text": order.text, "workdir": order.workdir}
