"""What turns spend on model calls: held to budgets before, counted with each answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, tzinfo

from sqlalchemy import Connection

from agent_service.budget import Account, Amount, Standing
from agent_service.budgets import Budgets
from agent_service.live_turn import LiveTurn
from agent_service.models.base import (
    Model,
    ModelEvent,
    ModelMessage,
    ModelNotice,
    ModelRequest,
)
from agent_service.models.catalog import Catalog
from agent_service.models.fallback import Chain
from agent_service.models.metered import Metered
from agent_service.models.pricing import BYTES_PER_TOKEN, estimated_tokens
from agent_service.storage import budgets as budget_rows
from agent_service.storage import usage
from agent_service.storage.usage import Charged
from agent_service.switching import Switching
from agent_service.transition import Transition
from agent_service.usage import Usage
from services.clock import Clock
from services.ids import new_id


class Spending:
    """The model as turns use it, and the record of what they use."""

    def __init__(
        self,
        model: Metered,
        chain: Chain,
        catalog: Catalog,
        budgets: Budgets,
        clock: Clock,
        zone: tzinfo | None,
    ) -> None:
        """Take the zone in which days begin; None is the machine's."""
        self._model = model
        self._chain = chain
        self.catalog = catalog
        self.budgets = budgets
        self._clock = clock
        self._zone = zone

    def model_for(self, turn: LiveTurn) -> Model:
        """The model that a turn calls; a call that its budgets do not allow is BudgetReached."""
        return Switching(_Budgeted(self, self._model, turn), self._chain, turn)

    def beside(self, turn: LiveTurn) -> Model:
        """The model that a turn asks for what is no part of its conversation, as `model_for`."""
        return _Budgeted(self, self._model, turn)

    def interrupted(self, turn: LiveTurn, partial: str) -> ModelMessage:
        """What an interrupted call had said, with what it is taken to have cost."""
        return self._model.interrupted(_broken_off(turn), partial)

    def record(self, conn: Connection, transition: Transition) -> None:
        """Count what a transition's answers used, in the transaction that stores them."""
        usage.record(conn, transition, self._day(transition.now))
        if not transition.turn.has_reserved:
            return
        if transition.after.finished is not None:
            budget_rows.settle_all(conn, transition.turn.id)
        for reservation in transition.settled:
            budget_rows.settle(conn, transition.turn.id, reservation)

    def account(self, profile: str, session_id: str, job_id: str = "") -> Account:
        """Whom a call of a session is charged to now."""
        job_id = job_id or usage.job_of(session_id)
        return Account(profile, session_id, job_id, self._day(self._clock.now()))

    async def hold(self, turn: LiveTurn, request: ModelRequest, reservation: str) -> bool:
        """Hold what a call beside the conversation may take; whether anything had to be held."""
        return bool(await self.reserve(turn, request, reservation=reservation))

    async def reserve(
        self, turn: LiveTurn, request: ModelRequest, scale: float = 1.0, reservation: str = ""
    ) -> list[Standing]:
        """Hold what a call may take; returns how budgets stood.

        `scale` corrects the estimate of the prompt by what the provider counted before. Costs
        nothing where there is no budget.
        """
        if not await self.budgets.apply_to(turn.profile):
            return []
        account = self.account(turn.profile, turn.charged_session_id)
        return await self.budgets.reserve(turn, account, self._most(request, scale), reservation)

    async def hold_outside(self, turn: Charged, request: ModelRequest, time_limit_s: float) -> str:
        """Hold what a call outside of turns may take, until it is counted.

        Returns the call's id. Where it is never counted, it is held twice as long as it may take.
        """
        call_id = new_id("ask")
        if await self.budgets.apply_to(turn.profile):
            account = self.account(turn.profile, turn.charged_session_id)
            await self.budgets.hold(account, self._most(request), call_id, 2 * time_limit_s)
        return call_id

    def count(
        self, conn: Connection, turn: Charged, call_id: str, answers: Sequence[ModelMessage]
    ) -> None:
        """Count what was answered outside of turns, in place of what was held for it."""
        budget_rows.settle(conn, call_id, "")
        day = self._day(self._clock.now())
        for answer in answers:
            usage.add(conn, turn, day, answer.model, Usage.of_call(answer.usage))

    def worth_saying(self, standings: list[Standing]) -> dict[str, str]:
        """What a person is to hear of budgets, by what it is about."""
        nearly = self.budgets.nearly_used_up(standings)
        return {one.scope.value: one.warning() for one in nearly}

    def _most(self, request: ModelRequest, scale: float = 1.0) -> Amount:
        """What a call takes at most."""
        info = self.catalog.find(request.model)
        answer = self.catalog.longest_answer(request.model, request.max_tokens)
        prompt = round(estimated_tokens((*request.messages, request.tools)) * scale)
        if info.price is None:
            return Amount(tokens=prompt + answer, unpriced=request.model)
        return Amount(info.price.most(prompt, answer), prompt + answer)

    def _day(self, moment: datetime) -> str:
        return moment.astimezone(self._zone).date().isoformat()


class _Budgeted:
    """The model of one turn."""

    def __init__(self, spending: Spending, inner: Model, turn: LiveTurn) -> None:
        self._spending = spending
        self._inner = inner
        self._turn = turn
        self._scale = max(1.0, turn.tokens_per_byte * BYTES_PER_TOKEN)
        self._said: set[str] = set()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Reserve what the call may take, then make it."""
        found = await self._spending.reserve(self._turn, request, self._scale)
        told = self._spending.worth_saying(found)
        new = [text for about, text in told.items() if about not in self._said]
        self._said |= told.keys()
        async with (
            self._inner.stream(request) as events,
            aclosing(self._watched(request, events, new)) as watched,
        ):
            yield watched

    async def _watched(
        self, request: ModelRequest, events: AsyncIterator[ModelEvent], notices: list[str]
    ) -> AsyncGenerator[ModelEvent]:
        async for event in events:
            # Who started the turn may only watch it by the time that the model speaks.
            for text in notices:
                yield ModelNotice(text)
            notices = []
            if isinstance(event, ModelMessage) and self._turn.has_reserved:
                self._learn(request, event)
            yield event

    def _learn(self, request: ModelRequest, message: ModelMessage) -> None:
        """Estimate the next prompt as the provider has counted this one."""
        if message.usage is not None:
            estimate = estimated_tokens((*request.messages, request.tools))
            self._scale = max(1.0, message.usage.prompt_tokens / max(1, estimate))


def _broken_off(turn: LiveTurn) -> ModelRequest:
    return ModelRequest(turn.model, turn.messages, purpose=turn.purpose)
