"""The first rows of a turn, when its session becomes free for it."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.models.base import encoded
from agent_service.storage.event_log import insert_events
from agent_service.storage.schema import message, session, step

_COUNT = sa.select(session.c.message_count).where(session.c.id == bindparam("id"))
_INSERT_MESSAGE = sa.insert(message)
_INSERT_STEP = sa.insert(step)
_TOUCH_SESSION = (
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(message_count=bindparam("count"), updated_at=bindparam("now"))
)


def begin(conn: Connection, turn: sa.Row[Any], now: datetime) -> None:
    """Put the user's message into the session and intend the first model call."""
    position = conn.execute(_COUNT, {"id": turn.session_id}).scalar_one() + 1
    conn.execute(
        _INSERT_MESSAGE,
        {
            "session_id": turn.session_id,
            "sequence": position,
            "turn_id": turn.id,
            "role": "user",
            "content": encoded({"role": "user", "content": turn.request["text"]}).decode(),
            "reasoning": "",
            "created_at": now,
        },
    )
    conn.execute(_TOUCH_SESSION, {"session_key": turn.session_id, "count": position, "now": now})
    conn.execute(
        _INSERT_STEP,
        {
            "turn_id": turn.id,
            "sequence": 1,
            "kind": "MODEL",
            "key": f"{turn.id}:1",
            "state": "INTENT",
            "call": None,
            "message_sequence": position + 1,
        },
    )
    started = events.TurnStarted(turn.session_id, turn.request["model"])
    insert_events(conn, turn.id, [events.Recorded(1, now, turn.epoch, started)])
