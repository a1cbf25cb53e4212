"""The first rows of a turn, when its session becomes free for it."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct, convert
from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam

from agent_service import events, links
from agent_service.calls import SCRIPT, PendingCall, PendingScript
from agent_service.models.base import ToolCall, encoded
from agent_service.requests import COMPRESS, NOTICE, REVIEW, SUBAGENT, Script
from agent_service.search.query import searchable, terms
from agent_service.storage import denials, search_index, sessions, undoing
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


SCRIPT_STEP = "SCRIPT"
"""The kind of the step that is a turn's script."""


class Begun(Struct, frozen=True):
    """What the beginning of a turn has stored, so that it need not be read again."""

    message: bytes | None
    """The user's, encoded; None where the turn has none."""
    events: Sequence[events.Recorded]
    message_count: int
    """Of the session, before that message."""
    revision: int
    """Of the session."""
    denied: frozenset[str] = frozenset()
    """Slash commands that somebody whose words it works on may not say."""


def begin(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> Begun:
    """Put the user's message into the session and intend the first model call, or first the script
    that says whether there is to be one.
    """
    if untrusted := turn.request.get("untrusted"):
        sessions.add_texts(conn, turn.session_id, TAINT, untrusted)
    if turn.kind not in (SUBAGENT, NOTICE, REVIEW):
        sessions.add_links(conn, turn.session_id, links.keys_in(turn.request["text"]))
    count, revision = turn.message_count, turn.revision
    if turn.request.get("script"):
        return _begin_script(conn, turn, epoch, now)
    message, said_again = {"role": "user", "content": turn.request["text"]}, ()
    if turn.request.get("retries"):
        again = undoing.retry(conn, turn, now)
        message, count, revision = again.message, again.message_count, again.revision
        said_again = denials.of_turn(conn, again.turn_id)
    denied = denials.begin(conn, turn, said_again)
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
    started = (events.Recorded(1, now, epoch, what),)
    insert_events(conn, turn.id, started)
    return Begun(said, started, count, revision, denied)


def first_events(turn: sa.Row[Any]) -> int:
    """How many events the beginning of a turn stores."""
    return 2 if turn.request.get("script") else 1


def script_of(turn: sa.Row[Any], *, resumed: bool = False) -> PendingScript:
    """The script that a turn begins with."""
    script = convert(turn.request["script"], Script)
    call = ToolCall(SCRIPT, SCRIPT, json.dumps({"command": script.text}, ensure_ascii=False))
    pending = PendingCall(f"{turn.id}:1", call, 1, 0, resumed=resumed)
    return PendingScript(pending, script, turn.request["text"])


def _begin_script(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> Begun:
    """Intend the turn's script; what the model is asked is stored when it has run."""
    call = script_of(turn).call
    _INSERT_STEP.run(
        conn,
        {
            "turn_id": turn.id,
            "sequence": call.sequence,
            "kind": SCRIPT_STEP,
            "key": call.key,
            "state": call.state,
            "call": asdict(call.call),
            "message_sequence": call.message_sequence,
        },
    )
    what = events.TurnStarted(turn.session_id, turn.request["model"])
    runs = events.ToolStarted(call.key, SCRIPT, call.call.arguments_json, 1)
    started = tuple(events.Recorded(n, now, epoch, e) for n, e in enumerate((what, runs), 1))
    insert_events(conn, turn.id, started)
    denied = denials.begin(conn, turn)
    return Begun(None, started, turn.message_count, turn.revision, denied)


def _say(
    conn: Connection, turn: sa.Row[Any], position: int, said: Mapping[str, Any], now: datetime
) -> bytes:
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
