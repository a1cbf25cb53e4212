"""The first rows of a turn, when its session becomes free for it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.models.base import encoded
from agent_service.requests import COMPRESS
from agent_service.search.terms import searchable, terms
from agent_service.storage import search_index
from agent_service.storage.event_log import insert_events
from agent_service.storage.schema import message, session, step
from services.database import Prepared

_INSERT_MESSAGE = Prepared(sa.insert(message))
_INSERT_STEP = Prepared(sa.insert(step))
_TOUCH_SESSION = Prepared(
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(message_count=bindparam("count"), updated_at=bindparam("now"))
)


@dataclass(frozen=True, slots=True)
class Begun:
    """What the beginning of a turn has stored, so that it need not be read again."""

    message: bytes | None
    """The user's, encoded; None where the turn has none."""
    started: events.Recorded


def begin(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> Begun:
    """Put the user's message into the session and intend the first model call."""
    said = None if turn.kind == COMPRESS else _say(conn, turn, now)
    _INSERT_STEP.run(
        conn,
        {
            "turn_id": turn.id,
            "sequence": 1,
            "kind": "MODEL",
            "key": f"{turn.id}:1",
            "state": "INTENT",
            "call": None,
            "message_sequence": turn.message_count + (1 if said is None else 2),
        },
    )
    what = events.TurnStarted(turn.session_id, turn.request["model"])
    started = events.Recorded(1, now, epoch, what)
    insert_events(conn, turn.id, [started])
    return Begun(said, started)


def _say(conn: Connection, turn: sa.Row[Any], now: datetime) -> bytes:
    position = turn.message_count + 1
    message = {"role": "user", "content": turn.request["text"]}
    content = encoded(message)
    _INSERT_MESSAGE.run(
        conn,
        {
            "session_id": turn.session_id,
            "sequence": position,
            "turn_id": turn.id,
            "role": "user",
            "content": content.decode(),
            "reasoning": "",
            "created_at": now,
        },
    )
    entry = search_index.Entry(position, "user", terms(searchable(message)), now)
    search_index.add(conn, turn.profile, turn.session_id, [entry])
    _TOUCH_SESSION.run(conn, {"session_key": turn.session_id, "count": position, "now": now})
    return content
