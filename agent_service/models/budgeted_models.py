"""Enforces budgets on model calls and records what turns spend."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from agent_service.models.consult import Consult, Help, NoAnswer, PaidResult
from agent_service.models.costs import BYTES_PER_TOKEN, estimated_tokens
from agent_service.models.fallback import FIRST, USUAL, Route
from agent_service.models.fallback_model import FallbackModel
from agent_service.models.parts import ModelParts
from agent_service.records.budget import Account, Amount, BudgetStatus, Policy, Scope
from agent_service.records.commands import Consulted, Fact
from agent_service.records.errors import BudgetReached, ModelNotConfigured
from agent_service.records.model import Model, ModelEvent, ModelMessage, ModelRequest, usage_of
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


class BudgetedModels:
    """The model as turns use it, and the record of what they spend."""

    def __init__(
        self,
        models: ModelParts,
        database: Database,
        leases: LeaseTable,
        policy: Policy,
        clock: Clock,
        zone: tzinfo | None,
    ) -> None:
        """Days begin in `zone`; None is the machine's."""
        self._model, self._chain, self._catalog = models.priced, models.chain, models.catalog
        self._is_local, self._default_name = models.is_local, models.first.default_name
        self._database = database
        self._leases = leases
        self.policy = policy
        self._clock = clock
        self._zone = zone

    def model_for(self, turn: LiveTurn) -> Model:
        """The model that a turn calls; raises BudgetReached above a budget."""

        async def reserve(request: ModelRequest) -> dict[str, str]:
            return self._warnings(await self.reserve(turn, request))

        return FallbackModel(self._model, self._chain, turn, reserve)

    def beside(self, turn: LiveTurn) -> Model:
        """The model for a turn's questions outside its conversation, as `model_for`."""
        return _BudgetedModel(self._model, partial(self.reserve, turn))

    def interrupted(self, turn: LiveTurn, partial: str) -> ModelMessage:
        return self._model.interrupted(_broken_off(turn), partial)

    def record(self, conn: Connection, transition: Transition) -> None:
        usage.record(conn, transition, self._day(transition.now))
        if not transition.turn.has_reserved:
            return
        if transition.after.finished is not None:
            budgets.settle_all(conn, transition.turn.id)
        for reservation in transition.settled:
            budgets.settle(conn, transition.turn.id, reservation)

    def account(self, profile: str, session_id: str, job_id: str = "") -> Account:
        job_id = job_id or usage.job_of(session_id)
        return Account(profile, session_id, job_id, self._day(self._clock.now()))

    async def reserve(
        self, turn: LiveTurn, request: ModelRequest, reservation: str = ""
    ) -> list[BudgetStatus]:
        """Reserve the maximum cost of a call; returns the budgets before.

        Parallel calls need different reservation names. Raises BudgetReached, and Fenced if the
        turn has another owner.
        """
        return await self._reserve(
            turn, reservation, lambda: self._most(request, turn.tokens_per_byte)
        )

    async def reserve_usage(
        self, turn: LiveTurn, model: str, most: Usage, reservation: str
    ) -> list[BudgetStatus]:
        """Reserve the maximum cost of another paid call, as `reserve`."""
        return await self._reserve(turn, reservation, lambda: self._priced(model, most))

    async def _reserve(
        self, turn: LiveTurn, reservation: str, most: Callable[[], Amount]
    ) -> list[BudgetStatus]:
        found = await self._hold(Holder(turn.id, reservation, turn.lease), turn, most)
        turn.has_reserved = turn.has_reserved or bool(found)
        return found

    def count_call(self, model: str, provider: str, usage: Usage) -> Usage:
        return self._model.count_call(model, provider, usage)

    async def hold_outside(self, turn: Charged, request: ModelRequest, time_limit_s: float) -> str:
        """Reserve the maximum cost of a call outside turns, and return the call's id.

        Raises BudgetReached. An uncounted reservation expires after twice the time limit.
        """
        call_id = new_id("ask")
        holder = Holder(call_id, for_s=2 * time_limit_s)
        await self._hold(holder, turn, lambda: self._most(request))
        return call_id

    def count(
        self, conn: Connection, turn: Charged, call_id: str, answers: Sequence[ModelMessage]
    ) -> None:
        """Count answers outside turns, and release their reservation."""
        budgets.settle(conn, call_id, "")
        day = self._day(self._clock.now())
        for answer in answers:
            usage.add(conn, turn, day, answer.model, answer.used)

    def _warnings(self, budgets_before: list[BudgetStatus]) -> dict[str, str]:
        nearly = [one for one in budgets_before if one.is_past(self.policy.warn_percent)]
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
        """Set a budget from the next call on; None reverts to config.yaml."""
        await self._database.write(
            lambda conn: budgets.set_limit(
                conn, profile, scope, scope_id, limit, keeps_set=keeps_set
            )
        )

    async def _hold(
        self, holder: Holder, turn: Charged, most: Callable[[], Amount]
    ) -> list[BudgetStatus]:
        if not await self._has_budget(turn.profile):
            return []
        asked = most()
        account = self.account(turn.profile, turn.charged_session_id)
        found, refusing = await self._database.write(
            lambda conn: budgets.reserve(conn, self._leases, holder, account, asked, self.policy)
        )
        if refusing is not None:
            raise BudgetReached(refusing.refusal(asked))
        return found

    async def _has_budget(self, profile: str) -> bool:
        return self.policy.is_limiting or profile in await self._database.read(
            budgets.limited_profiles
        )

    def _most(self, request: ModelRequest, tokens_per_byte: float = 0.0) -> Amount:
        scale = max(1.0, tokens_per_byte * BYTES_PER_TOKEN)
        info = self._catalog.find(request.model)
        answer = self._catalog.longest_answer(request.model, request.max_tokens)
        prompt = round(estimated_tokens((*request.messages, request.tools)) * scale)
        if info.price is None:
            unpriced = "" if self._is_free(request.route) else request.model
            return Amount(tokens=prompt + answer, unpriced=unpriced)
        return Amount(info.price.most(prompt, answer), prompt + answer)

    def _priced(self, model: str, most: Usage) -> Amount:
        cost = self._catalog.cost_of(model, most)
        unpriced = "" if cost is not None or self.policy.unpriced_is_free else model
        return Amount(cost or 0, most.tokens, unpriced)

    def _is_free(self, route: str) -> bool:
        return self.policy.unpriced_is_free or self._is_local(route)

    async def unpriced_model(self) -> str:
        """The model that budgets in US dollars would stop; empty if there is none."""
        try:
            name = await self._default_name()
        except ModelNotConfigured:
            return ""
        stops = self._catalog.find(name).price is None and not self._is_free(FIRST)
        return name if stops else ""

    def _day(self, moment: datetime) -> str:
        return moment.astimezone(self._zone).date().isoformat()


class _BudgetedModel(Struct, frozen=True):
    inner: Model
    reserve: Callable[[ModelRequest], Awaitable[object]]

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        await self.reserve(request)
        async with self.inner.stream(request) as events:
            yield events


def _broken_off(turn: LiveTurn) -> ModelRequest:
    return ModelRequest(turn.model, turn.messages, purpose=turn.purpose)


Commit = Callable[[Fact], Awaitable[None]]


class Consulting:
    """Questions of tools to models, and their other paid calls."""

    def __init__(self, consult: Consult, spending: BudgetedModels) -> None:
        self._consult = consult
        self._spending = spending

    def bind(self, turn: LiveTurn, commit: Commit) -> Help:
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
                held = await self._spending.reserve(turn, request, reservation)
            except BudgetReached as error:
                raise NoAnswer(str(error)) from error
            given = await self._consult.answer(request, time_limit_s)
            # A cancelled call keeps its reservation until the turn ends.
            if held or given.paid:
                model = given.paid[-1].model if given.paid else ""
                await commit(Consulted(reservation, model, usage_of(given.paid)))
            if given.failure:
                raise NoAnswer(given.failure)
            return given.text

        async def spend(
            model: str, provider: str, most: Usage, call: Callable[[], Awaitable[PaidResult]]
        ) -> bytes:
            reservation = new_id("ask")
            try:
                held = await self._spending.reserve_usage(turn, model, most, reservation)
            except BudgetReached as error:
                raise NoAnswer(str(error)) from error
            try:
                made = await call()
            except Exception:
                if held:
                    await commit(Consulted(reservation))
                raise
            used = self._spending.count_call(model, provider, made.usage)
            await commit(Consulted(reservation, model, used))
            return made.data

        return Help(ask, spend)
