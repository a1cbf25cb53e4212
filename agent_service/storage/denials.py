"""Slash commands that are denied to a turn: to any of those whose words it works on.

Whose they are is known by the turn's own request, by what joins it while it runs, and by what was
said in its session before and never answered: the next turn reads that as well.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.events import Outcome
from agent_service.requests import COMPRESS
from agent_service.storage.schema import session, session_state, turn
from agent_service.storage.sessions import put_state
from agent_service.storage.turns import REQUEST
from agent_service.transition import Transition

UNANSWERED = "denied_unanswered"
"""Name of a session's value: what was denied to its last turn, where that has given no answer."""

unanswered = (
    sa.select(session_state.c.value)
    .where(session_state.c.session_id == session.c.id, session_state.c.name == UNANSWERED)
    .scalar_subquery()
    .label("unanswered")
)
"""A column of a session."""
_KEEP = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"))
    .values(request=bindparam("new_request", type_=turn.c.request.type))
)


def of_turn(conn: Connection, turn_id: str) -> tuple[str, ...]:
    """What is denied to a turn."""
    request: dict[str, Any] | None = conn.execute(REQUEST, {"turn_id": turn_id}).scalar()
    return tuple((request or {}).get("denied", ()))


def begin(conn: Connection, begun: sa.Row[Any], said_again: Iterable[str] = ()) -> frozenset[str]:
    """What is denied to a turn that begins, which may say again what others have said."""
    own = frozenset(begun.request.get("denied", ()))
    left = () if begun.kind == COMPRESS else begun.unanswered or ()
    denied = own.union(left, said_again)
    if denied != own:
        _keep(conn, begun.id, begun.request, denied)
    return denied


def add(conn: Connection, turn_id: str, denied: Iterable[str]) -> None:
    """Deny more to a turn that nobody owns."""
    request: dict[str, Any] = conn.execute(REQUEST, {"turn_id": turn_id}).scalar_one()
    known = frozenset(request.get("denied", ()))
    if not known.issuperset(denied):
        _keep(conn, turn_id, request, known.union(denied))


def record(conn: Connection, transition: Transition) -> None:
    """Keep for the next turn what is denied to one that ends without an answer."""
    live, ended = transition.turn, transition.finished
    denied = live.denied | transition.denied
    if ended is None or not denied or live.kind == COMPRESS:
        return
    left = () if ended.outcome is Outcome.COMPLETED else sorted(denied)
    put_state(conn, live.session_id, UNANSWERED, left)


def _keep(conn: Connection, turn_id: str, request: dict[str, Any], denied: Iterable[str]) -> None:
    kept = {**request, "denied": sorted(denied)}
    conn.execute(_KEEP, {"turn_key": turn_id, "new_request": kept})
