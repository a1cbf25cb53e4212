"""Slash commands denied to a turn, because a person whose words it reads may not use them.

They come from the turn's request, from messages that join it, and from earlier messages of its
session that were never answered, because the next turn reads those too.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.records.events import Outcome
from agent_service.records.requests import COMPRESS, TurnRequest
from agent_service.records.transition import Transition
from agent_service.storage.schema import session, session_state, turn
from agent_service.storage.sessions import put_state
from agent_service.storage.turns import REQUEST

UNANSWERED = "denied_unanswered"
"""The session value with the denials of its last turn, if that gave no answer."""

unanswered = (
    sa.select(session_state.c.value)
    .where(session_state.c.session_id == session.c.id, session_state.c.name == UNANSWERED)
    .scalar_subquery()
    .label("unanswered")
)
_KEEP = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"))
    .values(request=bindparam("new_request", type_=turn.c.request.type))
)


def of_turn(conn: Connection, turn_id: str) -> tuple[str, ...]:
    """Return the commands that are denied to a turn."""
    request: TurnRequest | None = conn.execute(REQUEST, {"turn_id": turn_id}).scalar()
    return () if request is None else request.options.denied_commands


def begin(conn: Connection, begun: sa.Row[Any], said_again: Iterable[str] = ()) -> TurnRequest:
    """Deny to a new turn what was denied to the words that it reads; return its request.

    `said_again` was denied to the turn that it repeats.
    """
    left = () if begun.kind == COMPRESS else begun.unanswered or ()
    return _deny(conn, begun.request, (*left, *said_again))


def add(conn: Connection, turn_id: str, denied: Iterable[str]) -> None:
    """Deny more commands to a turn without an owner."""
    _deny(conn, conn.execute(REQUEST, {"turn_id": turn_id}).scalar_one(), denied)


def record(conn: Connection, transition: Transition) -> None:
    """Keep the denials of a turn that ends without an answer for the next one."""
    live, ended = transition.turn, transition.after.finished
    denied = transition.after.options.denied_commands
    if ended is None or not denied or live.kind == COMPRESS:
        return
    left = () if ended.outcome is Outcome.COMPLETED else denied
    put_state(conn, live.session_id, UNANSWERED, left)


def _deny(conn: Connection, request: TurnRequest, more: Iterable[str]) -> TurnRequest:
    if (kept := request.deny(more)) is not request:
        conn.execute(_KEEP, {"turn_key": request.turn_id, "new_request": kept})
    return kept
