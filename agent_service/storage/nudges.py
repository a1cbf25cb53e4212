"""Counts what a session has done since the agent last kept something of it."""

from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.storage.schema import session_state, step
from agent_service.storage.sessions import put_state
from agent_service.tools.taint import MEMORY_KEPT, SKILL_KEPT
from services.database import Prepared, is_one_of

COUNTS = "nudges"
"""Name of the session's value: its counts."""

_KEPT = Prepared(
    sa.select(session_state.c.name, session_state.c.value).where(
        session_state.c.session_id == bindparam("session_id"),
        is_one_of(session_state.c.name, (COUNTS, MEMORY_KEPT, SKILL_KEPT)),
    )
)
_before = step.alias("before")
_ITERATIONS = Prepared(
    sa.select(sa.func.count()).where(
        step.c.turn_id == bindparam("turn_id"),
        step.c.sequence > bindparam("after"),
        step.c.kind == sa.literal_column("'TOOL'"),
        sa.exists().where(
            _before.c.turn_id == step.c.turn_id,
            _before.c.sequence == step.c.sequence - 1,
            _before.c.kind == sa.literal_column("'MODEL'"),
        ),
    )
)
"""Messages of the model that have called tools: of each of them its first call."""


class Counts(Struct, frozen=True):
    """What has been since."""

    turns: int = 0
    """Turns of the user, since the model last wrote into memory or a review of it began."""
    iterations: int = 0
    """Messages of the model that have called tools, since it last wrote a skill, or likewise."""


def counted(conn: Connection, session_id: str, turn_id: str) -> Counts:
    """The counts at the end of a turn of the user, all of whose steps are stored."""
    rows = _KEPT.rows(conn, {"session_id": session_id}).all()
    kept: dict[str, Any] = {row.name: row.value for row in rows}
    before = Counts(**kept.get(COUNTS, {}))
    remembers = _step_of(kept.get(MEMORY_KEPT), turn_id) is not None
    learned = _step_of(kept.get(SKILL_KEPT), turn_id)
    since = {"turn_id": turn_id, "after": learned or 0}
    iterations: int = _ITERATIONS.rows(conn, since).scalar_one()
    return Counts(
        turns=0 if remembers else before.turns + 1,
        iterations=iterations + (before.iterations if learned is None else 0),
    )


def keep(conn: Connection, session_id: str, counts: Counts) -> None:
    """Keep the counts with the session."""
    value = {"turns": counts.turns, "iterations": counts.iterations}
    put_state(conn, session_id, COUNTS, value)


def _step_of(key: str | None, turn_id: str) -> int | None:
    """The number of a call's step, where it was of this turn."""
    of_turn, _, number = (key or "").rpartition(":")
    return int(number) if of_turn == turn_id and number.isdecimal() else None
