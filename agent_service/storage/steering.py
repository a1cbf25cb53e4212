"""Messages and notices that join a running turn with its tool results."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam

from agent_service.records.commands import Denied, Fact, ToolReturned
from agent_service.records.events import Outcome, Recorded, TurnFinished
from agent_service.records.requests import NOTICE
from agent_service.records.turn_state import STOP_AT, LiveTurn
from agent_service.security import url_provenance
from agent_service.storage import sessions
from agent_service.storage.schema import turn
from agent_service.storage.sessions import TAINT
from agent_service.storage.turns import insert_events
from services.database import Prepared

PASSED_ON = "Passed on to the work in progress."
_JOINED = TurnFinished(Outcome.COMPLETED, text=PASSED_ON)
_DROPPED = TurnFinished(
    Outcome.CANCELLED,
    message="Your message was dropped with the work that it was for. Send it again if it holds.",
)

_WAITING = Prepared(
    sa.select(turn.c.id, turn.c.kind, turn.c.request)
    .where(
        turn.c.session_id == bindparam("session_id"), turn.c.state == sa.literal_column("'QUEUED'")
    )
    .order_by(turn.c.created_at, turn.c.id)
)
_END = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.state == "QUEUED")
    .values(state=bindparam("ended_as"), finished_at=bindparam("now"), last_sequence=1)
)


def join(
    conn: Connection, live: LiveTurn, facts: tuple[Fact, ...], now: datetime
) -> tuple[Fact, ...]:
    """Return the facts with messages that arrived meanwhile, if a model call follows.

    The turns of these messages complete in the transaction that stores the facts.
    """
    last = facts[-1]
    if not isinstance(last, ToolReturned) or not _goes_on(live, facts):
        return facts
    joined = [
        row
        for row in _WAITING.rows(conn, {"session_id": live.session_id}).all()
        if row.request.steers and _end(conn, row, _JOINED, now)
    ]
    untrusted = {source for row in joined for source in row.request.untrusted}
    if untrusted:
        sessions.add_texts(conn, live.session_id, TAINT, untrusted)
    texts = [row.request.text for row in joined if row.kind != NOTICE]
    sessions.add_links(conn, live.session_id, url_provenance.keys_in("\n".join(texts)))
    notes = [row.request.text for row in joined if row.kind == NOTICE]
    if texts:
        words = "\n\n".join(texts)
        notes.insert(0, f"[The user says while you work:\n{words}]")
    if not notes:
        return facts
    denied = frozenset(name for row in joined for name in row.request.options.denied_commands)
    more = (Denied(denied),) if denied else ()
    notices = [text for row in joined for text in row.request.notices]
    text = "\n\n".join([last.text, *notes])
    return (*facts[:-1], replace(last, text=text, notices=(*last.notices, *notices)), *more)


def _goes_on(live: LiveTurn, facts: tuple[Fact, ...]) -> bool:
    """Return whether these are a message's last results and another model call is left."""
    returned = [fact for fact in facts if isinstance(fact, ToolReturned)]
    if live.pending.keys() != {fact.call.key for fact in returned}:
        return False
    # Other calls of the message may have failed and been stored before.
    failures = max(live.failures_in_row, *(fact.failures_in_row for fact in returned))
    return failures < STOP_AT and live.calls_left > 0


def drop(conn: Connection, session_id: str, now: datetime) -> None:
    """End the messages for a turn that a person stops; reports of commands stay."""
    for row in _WAITING.rows(conn, {"session_id": session_id}).all():
        if row.request.steers and row.kind != NOTICE:
            _end(conn, row, _DROPPED, now)


def _end(conn: Connection, row: sa.Row[Any], ended: TurnFinished, now: datetime) -> bool:
    values = {"turn_key": row.id, "ended_as": ended.outcome.upper(), "now": now}
    if not conn.execute(_END, values).rowcount:
        return False
    insert_events(conn, row.id, [Recorded(1, now, 1, ended)])
    return True
