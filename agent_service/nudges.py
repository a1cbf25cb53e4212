"""Decides at the end of a turn whether the agent looks back at the session.

What is counted and what begins with it is stored in the transaction that ends the turn, so that it
happens once, whoever drives the turn and however often its drivers are lost.
"""

from collections.abc import Set

from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.config.sessions import LearningConfig
from agent_service.events import Outcome
from agent_service.live_turn import LiveTurn
from agent_service.requests import Switched, TurnRequest
from agent_service.storage import nudges, reviews
from agent_service.storage.nudges import Counts
from agent_service.transition import Transition

USER = "user"
"""The kind of turns that count."""
MEMORY, SKILLS = "memory", "skills"


class Nudges:
    """Counts, and begins reviews."""

    def __init__(self, config: LearningConfig, toolsets: Set[str]) -> None:
        """Take the toolsets that there are tools of."""
        self._config = config
        self._toolsets = toolsets

    def record(self, conn: Connection, transition: Transition) -> None:
        """Count a turn that has ended, once that is stored, and begin what is due."""
        turn, ended = transition.turn, transition.after.finished
        memory, skills = self._asked_of(turn)
        if ended is None or turn.kind != USER or not (memory or skills):
            return
        counts = nudges.counted(conn, turn.session_id, turn.id)
        memory = memory and counts.turns >= self._config.memory_nudge_interval
        skills = skills and counts.iterations >= self._config.skill_nudge_interval
        if (memory or skills) and _has_come_through(turn, ended.outcome):
            review = self._review(turn, memory=memory, skills=skills)
            is_told = self._config.notifications == "off"
            reviews.begin(conn, review, transition.now, is_told=is_told)
            counts = Counts(
                turns=0 if memory else counts.turns, iterations=0 if skills else counts.iterations
            )
        nudges.keep(conn, turn.session_id, counts)

    def _asked_of(self, turn: LiveTurn) -> tuple[bool, bool]:
        """Whether memory and skills are looked back for, and can be used in the turn."""
        has = self._toolsets & turn.toolsets if turn.toolsets else self._toolsets
        return (
            self._config.memory_nudge_interval > 0 and MEMORY in has,
            self._config.skill_nudge_interval > 0 and SKILLS in has,
        )

    def _review(self, turn: LiveTurn, *, memory: bool, skills: bool) -> TurnRequest:
        # Another model may have taken over; it has the conversation in its cache.
        is_first = (turn.route, turn.model) == ("", turn.request.model)
        last = replace(
            turn.request,
            switched=None if is_first else Switched(turn.route, turn.model),
            denied=tuple(sorted(turn.denied)),
        )
        return reviews.asked(last, reviews.turn_id_of(turn.id), memory=memory, skills=skills)


def _has_come_through(turn: LiveTurn, outcome: Outcome) -> bool:
    """Whether models can be asked: else what is due begins with the end of the next turn."""
    if outcome is Outcome.LIMIT_REACHED:
        return turn.model_calls >= turn.max_model_calls
    return outcome is Outcome.COMPLETED
