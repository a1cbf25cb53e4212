"""Drives a claimed turn: commits the loop's facts to the journal, and shows its events."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from functools import partial
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.models.budgeted_models import BudgetedModels
from agent_service.records.commands import Fact, ModelAnswered, ScriptReturned, ToolReturned
from agent_service.records.errors import BudgetReached, budget_reached, model_failure
from agent_service.records.events import Live, Notice, Outcome, Recorded, TurnFinished
from agent_service.records.model_errors import ModelError
from agent_service.records.requests import COMPRESS
from agent_service.records.sandbox import CommandStatus, CommandUnknown, SandboxUnavailable
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import journal, steering
from agent_service.storage.claims import ClaimedTurn
from agent_service.turns.answer_files import pending_answer
from agent_service.turns.event_streams import TurnStream
from agent_service.turns.file_reader import skip_files
from agent_service.turns.loop import LoopParts, Step, run_turn
from agent_service.turns.metrics import AgentMetrics
from services.clock import Clock
from services.database import Database, DatabaseDamaged, DatabaseFull
from services.database.leases import Fenced, LeaseTable
from services.errors import DatabaseUnavailable, HermesError
from services.lifecycle import each_of, unbroken

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Work = Callable[["RunningTurn"], Awaitable[None]]

RETREAT_S = 0.5
"""The interval of retries if the database rejects a write."""

_INTERRUPTED = "The user interrupted this call."
_UNREACHED = "The sandbox could not be reached, so what ran in it may still be running."


class Stop(StrEnum):
    """Why a running turn is stopped from outside."""

    INTERRUPT = "interrupt"
    """The turn and its commands end."""
    DETACH = "detach"
    """The turn continues elsewhere or later, and its commands run on."""


class RunningTurn(Struct):
    """A turn that is driven here."""

    turn: LiveTurn
    stream: TurnStream
    task: asyncio.Task[None] | None = None
    stopped: Stop | None = None
    began: bool = False
    """Its task has started; a task that is cancelled before it starts never runs at all."""

    def stop(self, why: Stop) -> None:
        """Stop the turn; the first reason counts, except that DETACH overrules."""
        if self.stopped is None or why is Stop.DETACH:
            self.stopped = why
            if self.task is not None and self.began:
                self.task.cancel()


class TurnHooks(Struct, frozen=True):
    """Called beside the journal, in order."""

    spending: BudgetedModels
    on_commit: Sequence[Callable[[Connection, Transition], None]]
    after_turn: Sequence[Callable[[LiveTurn], Awaitable[None]]]


class CommandKiller(Protocol):
    """Ends what the calls of an interrupted turn have started."""

    async def kill(self, key: str) -> CommandStatus: ...


class TurnRunner:
    """Drives turns."""

    def __init__(
        self,
        database: Database,
        leases: LeaseTable,
        parts: LoopParts,
        hooks: TurnHooks,
        commands: Callable[[LiveTurn], CommandKiller],
        clock: Clock,
        metrics: AgentMetrics,
    ) -> None:
        self._database = database
        self._leases = leases
        self._parts = parts
        self._hooks, self._spending = hooks, hooks.spending
        self._commands = commands
        self._clock = clock
        self._metrics = metrics

    async def drive(self, driving: RunningTurn, claimed: ClaimedTurn) -> None:
        review = partial(self._review, stuck_count=claimed.stuck_count)
        work: _Work | None = review if claimed.is_stuck else self._run
        if driving.stopped is not None:
            work = self._instead(driving)
        try:
            while work is not None:
                work = await self._attempt(driving, work)
        except Fenced:
            _log.warning("the turn has another owner now")
        except DatabaseDamaged as error:
            _log.error("the turn was let go: %s", error)
            driving.stream.failed = error
        except HermesError as error:
            # Nothing more can be stored; the next owner continues from the journal.
            _log.error("the turn was let go: %s", error)
        _log_end(driving.turn)
        if driving.turn.finished is not None:
            for after in self._hooks.after_turn:
                await after(driving.turn)

    async def _attempt(self, driving: RunningTurn, work: _Work) -> _Work | None:
        try:
            return await self._stoppable(driving, work)
        except DatabaseUnavailable as error:
            if driving.stopped is Stop.DETACH:
                raise
            _log.warning("the turn waits for the database: %s", error)
            if work != self._retreat:
                self._show(driving, Notice(f"This waits: {error}"))
            return self._retreat

    async def _stoppable(self, driving: RunningTurn, work: _Work) -> _Work | None:
        try:
            await work(driving)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if driving.stopped is None or task is None:
                raise
            task.uncancel()
            return self._instead(driving)
        return None

    def _instead(self, driving: RunningTurn) -> _Work | None:
        if driving.turn.finished is not None or driving.turn.waits_for_person:
            return None
        return self._cancel if driving.stopped is Stop.INTERRUPT else self._release

    async def _run(self, driving: RunningTurn) -> None:
        try:
            spending, turn = self._spending, driving.turn
            parts = replace(
                self._parts, model=spending.model_for(turn), beside=spending.beside(turn)
            )
            async with aclosing(run_turn(driving.turn, parts)) as steps:
                async for step in steps:
                    await self._take(driving, step)
        except ModelError as error:
            await self._commit(driving, (model_failure(error, self._partial(driving)),))
        except BudgetReached as error:
            await self._commit(driving, (budget_reached(error),))

    async def _review(self, driving: RunningTurn, *, stuck_count: int) -> None:
        await self._commit(driving, (_needs_review(stuck_count),))

    async def _take(self, driving: RunningTurn, step: Step) -> None:
        if isinstance(step, tuple):
            await self._commit(driving, step)
            return
        if isinstance(step, Notice):
            driving.stream.void_partial(driving.turn.step)
        self._show(driving, step)

    def _show(self, driving: RunningTurn, event: Live) -> None:
        driving.stream.publish(Recorded(0, self._clock.now(), driving.turn.epoch, event))

    async def _commit(self, driving: RunningTurn, facts: tuple[Fact, ...]) -> None:
        # Stored facts must be applied, or the next ones are based on an old state.
        await unbroken(self._store(driving, facts))

    async def _store(self, driving: RunningTurn, facts: tuple[Fact, ...]) -> None:
        turn, now = driving.turn, self._clock.now()

        def write(conn: Connection) -> Transition:
            transition = Transition.from_facts(turn, steering.join(conn, turn, facts, now), now)
            journal.commit(conn, self._leases, transition)
            for record in self._hooks.on_commit:
                record(conn, transition)
            return transition

        transition = await self._written(driving, write)
        transition.apply()
        age = (transition.now - driving.turn.started_at).total_seconds()
        self._metrics.committed(driving.turn, facts, age)
        for recorded in transition.events:
            driving.stream.publish(recorded)

    async def _written(self, driving: RunningTurn, write: Callable[[Connection], _T]) -> _T:
        """Write, and wait for space on a full disk, so that no answer is asked for twice."""
        is_told = False
        while True:
            try:
                return await self._database.write(write)
            except DatabaseFull as error:
                if driving.stopped is not None:
                    raise
                if not is_told:
                    _log.warning("the turn waits for space: %s", error)
                    self._show(driving, Notice(f"This waits: {error}", keeps_text=True))
                    is_told = True
                await self._clock.sleep(RETREAT_S)

    async def _cancel(self, driving: RunningTurn) -> None:
        turn, partial = driving.turn, self._partial(driving)
        left = await self._kill(turn) if turn.under_way else _Left()
        facts: list[Fact] = [
            ToolReturned(call, left.describe(call.key), is_error=True)
            for call in turn.pending.values()
        ]
        if turn.unread:
            facts.append(skip_files(turn.request.files, turn.request.text))
        if turn.script is not None:
            call = turn.script.call
            facts.append(ScriptReturned(call, left.describe(call.key), is_error=True))
        elif partial and not turn.pending:
            said = self._spending.interrupted(turn, partial)
            facts.append(ModelAnswered(turn.step, said))
        said_so_far = _whole_answer(turn) or partial
        ended = TurnFinished(
            Outcome.CANCELLED, said_so_far, left.message, survivor_count=left.survivor_count
        )
        await self._commit(driving, (*facts, ended))

    def _partial(self, driving: RunningTurn) -> str:
        """Return the redacted text of an interrupted call; secrets may span several pieces."""
        return self._parts.redact(driving.stream.partial_text)

    async def _kill(self, turn: LiveTurn) -> "_Left":
        await self._database.write(lambda conn: journal.mark_cancelling(conn, self._leases, turn))
        commands = self._commands(turn)
        left = _Left()
        await each_of(left.end(commands, key) for key in turn.under_way)
        return left

    async def _retreat(self, driving: RunningTurn) -> None:
        """Release the turn after a moment; its next owner continues from what is stored."""
        await self._clock.sleep(RETREAT_S)
        await self._release(driving)

    async def _release(self, driving: RunningTurn) -> None:
        await self._database.write(lambda conn: self._leases.release(conn, driving.turn.lease))


class _Left:
    def __init__(self) -> None:
        self.survivor_count = 0
        self._unreached: set[str] = set()

    async def end(self, commands: CommandKiller, key: str) -> None:
        try:
            status = await commands.kill(key)
        except CommandUnknown:
            return
        except SandboxUnavailable as error:
            _log.warning("a command of the interrupted turn could not be reached: %s", error)
            self._unreached.add(key)
        else:
            self.survivor_count += status.exit.survivor_count if status.exit is not None else 0

    def describe(self, key: str) -> str:
        return f"{_INTERRUPTED} {_UNREACHED}" if key in self._unreached else _INTERRUPTED

    @property
    def message(self) -> str:
        if self._unreached:
            return _UNREACHED
        if self.survivor_count:
            return f"{self.survivor_count} of its processes could not be killed."
        return ""


def _whole_answer(turn: LiveTurn) -> str | None:
    """Return the answer of a turn that only waits for its files; it is stored in the session."""
    # A compressed conversation may well end with an answer of an earlier turn.
    is_begun = turn.kind != COMPRESS and turn.script is None and not turn.unread
    return pending_answer(turn) if is_begun else None


def _log_end(turn: LiveTurn) -> None:
    ended = turn.finished
    if ended is None:
        _log.info("the turn is let go after %d model calls", turn.model_calls)
    elif ended.outcome is Outcome.FAILED:
        _log.warning("the turn failed: %s: %s", ended.reason, ended.message)
    else:
        _log.info("the turn ended after %d model calls: %s", turn.model_calls, ended.outcome)


def _needs_review(stuck_count: int) -> TurnFinished:
    return TurnFinished(
        Outcome.NEEDS_REVIEW,
        message=(
            f"Hermes was lost {stuck_count} times while it worked on this message, always at the "
            "same step. Look at the log, then send the message again."
        ),
        reason="POISON",
    )
