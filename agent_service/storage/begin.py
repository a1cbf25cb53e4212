"""The first rows of a turn, when its session becomes free for it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.models.base import encoded
from agent_service.requests import COMPRESS, REVIEW
from agent_service.search.terms import searchable, terms
from agent_service.storage import search_index, sessions, undoing
from agent_service.storage.event_log import insert_events
from agent_service.storage.schema import message, session, step
from agent_service.tools.taint import STATE as TAINT
from services.database import Prepared

_INSERT_MESSAGE = Prepared(sa.insert(message))
_INSERT_STEP = Prepared(sa.insert(step))
_TOUCH_SESSION = Prepared(
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(message_count=bindparam("count"), updated_at=bindparam("now"))
)


class Begun(Struct, frozen=True):
    """What the beginning of a turn has stored, so that it need not be read again."""

    message: bytes | None
    """The user's, encoded; None where the turn has none."""
    started: events.Recorded
    message_count: int
    """Of the session, before that message."""
    revision: int
    """Of the session."""


def begin(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> Begun:
    """Put the user's message into the session and intend the first model call."""
    count, revision = turn.message_count, turn.revision
    message = {"role": "user", "content": turn.request["text"]}
    if turn.request.get("retries"):
        again = undoing.retry(conn, turn, now)
        message, count, revision = again.message, again.message_count, again.revision
    said = None if turn.kind == COMPRESS else _say(conn, turn, count + 1, message, now)
    _INSERT_STEP.run(
        conn,
        {
            "turn_id": turn.id,
            "sequence": 1,
            "kind": "MODEL",
            "key": f"{turn.id}:1",
            "state": "INTENT",
            "call": None,
            "message_sequence": count + (1 if said is None else 2),
        },
    )
    what = events.TurnStarted(turn.session_id, turn.request["model"])
    started = events.Recorded(1, now, epoch, what)
    insert_events(conn, turn.id, [started])
    return Begun(said, started, count, revision)


def _say(
    conn: Connection, turn: sa.Row[Any], position: int, said: Mapping[str, Any], now: datetime
) -> bytes:
    if untrusted := turn.request.get("untrusted"):
        sessions.add_texts(conn, turn.session_id, TAINT, untrusted)
    content = encoded(said)
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
    if turn.kind != REVIEW:
        entry = search_index.Entry(position, "user", terms(searchable(said)), now)
        search_index.add(conn, turn.profile, turn.session_id, [entry])
    _TOUCH_SESSION.run(conn, {"session_key": turn.session_id, "count": position, "now": now})
    return content
