"""Single questions that a turn's tools ask of models, in its budgets and counted with it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_service.errors import BudgetReached
from agent_service.facts import Consulted, Fact
from agent_service.live_turn import LiveTurn
from agent_service.models.consult import Ask, Consult, NoAnswer
from agent_service.models.fallback import USUAL, Route
from agent_service.spending import Spending
from agent_service.usage import Usage
from services.ids import new_id

Commit = Callable[[Fact], Awaitable[None]]
"""Stores a fact of the turn, and returns once that is done."""


class Consulting:
    """What tools ask of models."""

    def __init__(self, consult: Consult, spending: Spending) -> None:
        self._consult = consult
        self._spending = spending

    def of(self, turn: LiveTurn, commit: Commit) -> Ask:
        """What asks in the name of a turn."""

        async def ask(
            messages: Sequence[Mapping[str, Any]],
            route: Route = USUAL,
            /,
            *,
            time_limit_s: float | None = None,
        ) -> str:
            request = await self._consult.request(messages, route)
            reservation = new_id("ask")
            try:
                held = await self._spending.reserve(turn, request, reservation=reservation)
            except BudgetReached as error:
                raise NoAnswer(str(error)) from error
            given = await self._consult.answer(request, time_limit_s)
            # A call that is cancelled keeps its part of the budget held until its turn ends.
            if held or given.paid:
                model = given.paid[-1].model if given.paid else ""
                await commit(Consulted(reservation, model, Usage.of_answers(given.paid)))
            if given.failure:
                raise NoAnswer(given.failure)
            return given.text

        return ask
