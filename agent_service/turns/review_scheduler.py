"""Decides at the end of a turn whether the agent reviews the session.

Counts and new reviews are stored in the transaction that ends the turn, so that each happens once,
however often a turn's owner is lost.
"""

from collections.abc import Set
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.config.sessions import LearningConfig
from agent_service.records.events import Outcome
from agent_service.records.requests import TurnRequest
from agent_service.records.reviews import review_request, review_turn_id
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import reviews
from agent_service.storage.schema import session_state, step
from agent_service.storage.sessions import put_state
from agent_service.tools.guards.taint import MEMORY_KEPT, SKILL_KEPT
from services.database import Prepared, is_one_of

COUNTS = "nudges"

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
"""Each model message with tool calls, represented by its first call."""


class Counts(Struct, frozen=True):
    """What happened since the last reviews."""

    turns: int = 0
    """User turns since the model last wrote to memory or a review of it began."""
    iterations: int = 0
    """Model messages with tool calls since it last wrote a skill or a review of them began."""


def counted(conn: Connection, session_id: str, turn_id: str) -> Counts:
    """Return the counts at the end of a user's turn, all of whose steps are stored."""
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
    """Store the counts with the session."""
    value = {"turns": counts.turns, "iterations": counts.iterations}
    put_state(conn, session_id, COUNTS, value)


def _step_of(key: str | None, turn_id: str) -> int | None:
    of_turn, _, number = (key or "").rpartition(":")
    return int(number) if of_turn == turn_id and number.isdecimal() else None


USER = "user"
"""The kind of turns that count."""
MEMORY, SKILLS = "memory", "skills"


class ReviewScheduler:
    """Counts, and begins reviews."""

    def __init__(self, config: LearningConfig, toolsets: Set[str]) -> None:
        """`toolsets` are those that have tools."""
        self._config = config
        self._toolsets = toolsets

    def record(self, conn: Connection, transition: Transition) -> None:
        """Count a turn whose end was stored, and begin the reviews that are due."""
        turn, ended = transition.turn, transition.after.finished
        memory, skills = self._asked_of(turn)
        if ended is None or turn.kind != USER or not (memory or skills):
            return
        counts = counted(conn, turn.session_id, turn.id)
        memory = memory and counts.turns >= self._config.memory_nudge_interval
        skills = skills and counts.iterations >= self._config.skill_nudge_interval
        if (memory or skills) and _has_come_through(turn, ended.outcome):
            review = self._review(turn, memory=memory, skills=skills)
            is_told = self._config.notifications == "off"
            reviews.begin(conn, review, transition.now, is_told=is_told)
            counts = Counts(
                turns=0 if memory else counts.turns, iterations=0 if skills else counts.iterations
            )
        keep(conn, turn.session_id, counts)

    def _asked_of(self, turn: LiveTurn) -> tuple[bool, bool]:
        has = self._toolsets & turn.toolsets if turn.toolsets else self._toolsets
        return (
            self._config.memory_nudge_interval > 0 and MEMORY in has,
            self._config.skill_nudge_interval > 0 and SKILLS in has,
        )

    def _review(self, turn: LiveTurn, *, memory: bool, skills: bool) -> TurnRequest:
        # The fallback model, if any, has the conversation in its cache.
        return review_request(turn.request, review_turn_id(turn.id), memory=memory, skills=skills)


def _has_come_through(turn: LiveTurn, outcome: Outcome) -> bool:
    """Return whether models are reachable; if not, due reviews begin after the next turn."""
    if outcome is Outcome.LIMIT_REACHED:
        return not turn.calls_left
    return outcome is Outcome.COMPLETED
