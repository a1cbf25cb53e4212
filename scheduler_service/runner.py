"""One run, from its claim to its end: start its turn, watch it, store the output, deliver it.

Every step is keyed by the run's id or fenced by its epoch, so that whoever takes a run over begins
where the run's state says and repeats nothing that counts.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.errors import CallRefused
from scheduler_service.jobs import Claim, RunState
from scheduler_service.storage import runs
from scheduler_service.storage.runs import Ending
from services.clock import Clock
from services.database import Database
from services.errors import Unavailable
from services.leases import LeaseTable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_FIRST_RETRY_S = 0.1
_LONGEST_RETRY_S = 5.0
# A delivery holds 1 MiB, in which what is said about a failure must find place too.
_MAX_OUTPUT_BYTES = 960 * 1024
_MAX_ERROR_BYTES = 8 * 1024


class TurnResult(Struct, frozen=True):
    """What a turn came to: its answer, and why it failed if it did."""

    output: str
    error: str = ""


class TurnWatch(Protocol):
    """A turn that is being watched."""

    async def result(self) -> TurnResult:
        """Return what the turn came to; after Unavailable, call again to go on from there."""
        ...


class Agent(Protocol):
    """Where the turns of runs are worked on. Raises Unavailable and CallRefused."""

    async def start(self, claim: Claim) -> None:
        """Start the run's turn; the second time changes nothing."""
        ...

    def watch(self, claim: Claim) -> TurnWatch:
        """Watch the run's turn from its beginning."""
        ...


class Gateway(Protocol):
    """Where output goes to chats. Raises Unavailable and CallRefused."""

    async def deliver(self, claim: Claim, text: str) -> None:
        """Hand over the text for the job's chat; the second time changes nothing."""
        ...


class Observer(Protocol):
    """Where runs are counted."""

    def ended(self, outcome: RunState) -> None: ...


class Runner:
    """Runs claims; at most `slots` turns at a time."""

    def __init__(
        self,
        database: Database,
        agent: Agent,
        gateway: Gateway,
        *,
        leases: LeaseTable,
        clock: Clock,
        slots: int,
        observer: Observer,
    ) -> None:
        self._database = database
        self._agent = agent
        self._gateway = gateway
        self._leases = leases
        self._clock = clock
        self._slots = asyncio.Semaphore(slots)
        self._observer = observer

    async def run(self, claim: Claim) -> None:
        """Bring a run to its end; raises Fenced if somebody else does."""
        if claim.state is not RunState.DELIVERING:
            async with self._slots:
                result = await self._turn(claim)
            claim = replace(claim, output=result.output, error=result.error)
            await self._store(partial(runs.end_run, leases=self._leases, claim=claim), claim)
        refusal = await self._deliver(claim)
        is_silent = not claim.error and not claim.output.strip()
        ending = Ending(claim.error, refusal, is_silent)
        now = self._clock.now()
        close = partial(runs.close_run, leases=self._leases, claim=claim, ending=ending, now=now)
        await self._store(close, claim)
        self._observer.ended(ending.state)
        _log.info("run %s of job %s has ended: %s", claim.run_id, claim.job.id, ending.state)

    async def _turn(self, claim: Claim) -> TurnResult:
        try:
            if claim.state is RunState.CLAIMED:
                await self._persist(claim, partial(self._agent.start, claim))
                attempt = replace(claim.attempt, started_at=self._clock.now())
                started = replace(claim, attempt=attempt)
                start = partial(runs.start_run, leases=self._leases, claim=started)
                await self._store(start, claim)
            watch = self._agent.watch(claim)
            result = await self._persist(claim, watch.result)
        except CallRefused as refusal:
            result = TurnResult("", str(refusal))
        return TurnResult(
            _storable(result.output, _MAX_OUTPUT_BYTES), _storable(result.error, _MAX_ERROR_BYTES)
        )

    async def _deliver(self, claim: Claim) -> str:
        """Tell the chat what it should hear; return why that was refused, if it was."""
        text = claim.output if not claim.error else await self._report(claim)
        if claim.job.origin is None or not text.strip():
            return ""
        try:
            await self._persist(claim, partial(self._gateway.deliver, claim, text))
        except CallRefused as refusal:
            return str(refusal)
        return ""

    async def _report(self, claim: Claim) -> str:
        """What to say about a failure; nothing if the run before failed in the same way."""
        read = partial(self._database.read, partial(runs.error_before, claim=claim))
        if await self._persist(claim, read) == claim.error:
            return ""
        report = f'The job "{claim.job.name}" failed: {claim.error}'
        return f"{report}\n\n{claim.output}" if claim.output else report

    async def _store(self, fn: Callable[[sa.Connection], None], claim: Claim) -> None:
        await self._persist(claim, partial(self._database.write, fn))

    async def _persist(self, claim: Claim, call: Callable[[], Awaitable[_T]]) -> _T:
        """Call until there is an answer, however long that takes."""
        delay_s = _FIRST_RETRY_S
        while True:
            try:
                return await call()
            except Unavailable as error:
                level = logging.WARNING if delay_s == _FIRST_RETRY_S else logging.DEBUG
                _log.log(level, "run %s waits: %s", claim.run_id, error)
            await self._clock.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            delay_s = min(2 * delay_s, _LONGEST_RETRY_S)


def _storable(text: str, max_bytes: int) -> str:
    """The text without what PostgreSQL cannot store, cut to a length that can be delivered."""
    data = text.replace("\0", "\ufffd").encode()
    if len(data) <= max_bytes:
        return data.decode()
    return data[:max_bytes].decode(errors="ignore") + "\n\n… (this was longer)"
