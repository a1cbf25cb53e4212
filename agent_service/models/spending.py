"""What turns spend on model calls: held to budgets before, counted with each answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, tzinfo
from typing import Any

from sqlalchemy import Connection

from agent_service.models.consult import Ask, Consult, NoAnswer
from agent_service.models.fallback import USUAL, Route
from agent_service.models.fallback_model import FallbackModel
from agent_service.models.parts import ModelParts
from agent_service.models.pricing import BYTES_PER_TOKEN, estimated_tokens
from agent_service.records.budget import Account, Amount, BudgetStatus, Policy, Scope
from agent_service.records.commands import Consulted, Fact
from agent_service.records.errors import BudgetReached
from agent_service.records.model import Model, ModelEvent, ModelMessage, ModelNotice, ModelRequest
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from agent_service.storage import budgets, usage
from agent_service.storage.budgets import Holder
from agent_service.storage.usage import Charged
from services.clock import Clock
from services.database import Database
from services.database.leases import LeaseTable
from services.ids import new_id

LOOK_AGAIN_S = 1.0
"""After how long a budget that was set through another replica holds here, where there was none."""


class Spending:
    """The model as turns use it, and the record of what they use."""

    def __init__(
        self,
        models: ModelParts,
        database: Database,
        leases: LeaseTable,
        policy: Policy,
        clock: Clock,
        zone: tzinfo | None,
    ) -> None:
        """Take the zone in which days begin; None is the machine's."""
        self._model, self._chain, self._catalog = models.priced, models.chain, models.catalog
        self._database = database
        self._leases = leases
        self.policy = policy
        self._clock = clock
        self._zone = zone
        self._limited: frozenset[str] = frozenset()
        self._looked_at: float | None = None
        self._changes = 0

    def model_for(self, turn: LiveTurn) -> Model:
        """The model that a turn calls; a call that its budgets do not allow is BudgetReached."""
        return FallbackModel(_Budgeted(self, self._model, turn), self._chain, turn)

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
            budgets.settle_all(conn, transition.turn.id)
        for reservation in transition.settled:
            budgets.settle(conn, transition.turn.id, reservation)

    def account(self, profile: str, session_id: str, job_id: str = "") -> Account:
        """Whom a call of a session is charged to now."""
        job_id = job_id or usage.job_of(session_id)
        return Account(profile, session_id, job_id, self._day(self._clock.now()))

    async def reserve(
        self, turn: LiveTurn, request: ModelRequest, scale: float = 1.0, reservation: str = ""
    ) -> list[BudgetStatus]:
        """Hold what a call may take; returns how budgets stood before.

        `scale` corrects the estimate of the prompt by what the provider counted before. Calls that
        are made side by side have reservations of different names. BudgetReached when a budget has
        no room for it; Fenced when the turn has another owner. Costs nothing without a budget.
        """
        if not await self._has_budget(turn.profile):
            return []
        asked = self._most(request, scale)
        account = self.account(turn.profile, turn.charged_session_id)
        holder = Holder(turn.id, reservation, turn.lease)
        found, refusing = await self._hold(holder, account, asked)
        if refusing is not None:
            raise BudgetReached(refusing.refusal(asked))
        turn.has_reserved = turn.has_reserved or bool(found)
        return found

    async def hold_outside(self, turn: Charged, request: ModelRequest, time_limit_s: float) -> str:
        """Hold what a call outside of turns may take, until it is counted; BudgetReached as above.

        Returns the call's id. Where it is never counted, it is held twice as long as it may take.
        """
        call_id = new_id("ask")
        if await self._has_budget(turn.profile):
            account = self.account(turn.profile, turn.charged_session_id)
            asked = self._most(request)
            holder = Holder(call_id, for_s=2 * time_limit_s)
            _, refusing = await self._hold(holder, account, asked)
            if refusing is not None:
                raise BudgetReached(refusing.refusal(asked))
        return call_id

    def count(
        self, conn: Connection, turn: Charged, call_id: str, answers: Sequence[ModelMessage]
    ) -> None:
        """Count what was answered outside of turns, in place of what was held for it."""
        budgets.settle(conn, call_id, "")
        day = self._day(self._clock.now())
        for answer in answers:
            usage.add(conn, turn, day, answer.model, Usage.of_call(answer.usage))

    def worth_saying(self, standings: list[BudgetStatus]) -> dict[str, str]:
        """What a person is to hear of budgets, by what it is about."""
        nearly = [one for one in standings if one.is_past(self.policy.warn_percent)]
        return {one.scope.value: one.warning() for one in nearly}

    async def set_budget(
        self,
        profile: str,
        scope: Scope,
        scope_id: str,
        limit: Amount | None,
        *,
        keeps_set: bool = False,
    ) -> None:
        """Set a budget, or leave it to config.yaml again; it holds from the next call on.

        One that was set before stays if that is asked.
        """
        await self._database.write(
            lambda conn: budgets.set_limit(
                conn, profile, scope, scope_id, limit, keeps_set=keeps_set
            )
        )
        self._changes += 1
        self._looked_at = None

    async def _hold(
        self, holder: Holder, account: Account, asked: Amount
    ) -> tuple[list[BudgetStatus], BudgetStatus | None]:
        return await self._database.write(
            lambda conn: budgets.reserve(conn, self._leases, holder, account, asked, self.policy)
        )

    async def _has_budget(self, profile: str) -> bool:
        """Whether a profile has any budget, as far as was to be seen a moment ago."""
        if self.policy.is_limiting:
            return True
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_AGAIN_S:
            changes = self._changes
            found = await self._database.read(budgets.limited_profiles)
            # Only what was read is known: who calls meanwhile must not take the old for it.
            if changes == self._changes:
                self._limited, self._looked_at = found, now
            return profile in found
        return profile in self._limited

    def _most(self, request: ModelRequest, scale: float = 1.0) -> Amount:
        """What a call takes at most."""
        info = self._catalog.find(request.model)
        answer = self._catalog.longest_answer(request.model, request.max_tokens)
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
