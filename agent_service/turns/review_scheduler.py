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
from agent_service.storage.schema import session_state
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


class Counts(Struct, frozen=True):
    """What happened since the last reviews."""

    turns: int = 0
    """User turns since the model last wrote to memory or a review of it began."""
    iterations: int = 0
    """Model messages with tool calls since it last wrote a skill or a review of them began."""


def counted(conn: Connection, turn: LiveTurn) -> Counts:
    """Return the counts at the end of a user's turn."""
    rows = _KEPT.rows(conn, {"session_id": turn.session_id}).all()
    kept: dict[str, Any] = {row.name: row.value for row in rows}
    before = Counts(**kept.get(COUNTS, {}))
    remembers, learned = (
        str(kept.get(name)).startswith(f"{turn.id}:") for name in (MEMORY_KEPT, SKILL_KEPT)
    )
    # The last call of a turn is its answer.
    iterations = max(0, turn.model_calls - 1)
    return Counts(
        turns=0 if remembers else before.turns + 1,
        iterations=0 if learned else before.iterations + iterations,
    )


def keep(conn: Connection, session_id: str, counts: Counts) -> None:
    """Store the counts with the session."""
    value = {"turns": counts.turns, "iterations": counts.iterations}
    put_state(conn, session_id, COUNTS, value)


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
        counts = counted(conn, transition.after)
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
