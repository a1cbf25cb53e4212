"""One run from its claim to its end: start its turn, watch it, store the output, deliver it.

Every step is keyed by the run's id or fenced by its epoch, so a scheduler that takes over a run
continues from its state and repeats no effect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.clients import AgentClient, Ask, GatewayClient
from scheduler_service.clients.batches import TurnReport
from scheduler_service.errors import CallRefused, attack
from scheduler_service.jobs import Attempt, Claim, JobKind, RunState
from scheduler_service.options import Overlap, retry_at
from scheduler_service.runs import prompts
from scheduler_service.runs.curator import CuratorRuns
from scheduler_service.runs.delivery import OutputFolders, build_notification
from scheduler_service.runs.metrics import SchedulerMetrics
from scheduler_service.runs.prompts import instructions, own_words, parts
from scheduler_service.storage import runs
from scheduler_service.storage.runs import Ending
from services.clock import Clock
from services.database import Database
from services.database.leases import Fenced, LeaseTable
from services.database.retries import until_answered
from services.errors import Unavailable
from services.lifecycle import unbroken
from services.telemetry.tracing import span, traceparent

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_HELD_FOR_EACH_SLOT = 2
# A delivery holds 1 MiB, including the text about a failure.
_MAX_OUTPUT_BYTES = 960 * 1024
_MAX_ERROR_BYTES = 8 * 1024


class RunServices(Struct, frozen=True):
    """The collaborators of a run."""

    agent: AgentClient
    gateway: GatewayClient
    curation: CuratorRuns | None = None
    """None: this scheduler does not run the curator."""
    outputs: OutputFolders | None = None


class Runner:
    """Runs claims: at most `slots` turns at a time, and as many curator runs."""

    def __init__(
        self,
        database: Database,
        helpers: RunServices,
        *,
        leases: LeaseTable,
        clock: Clock,
        slots: int,
        metrics: SchedulerMetrics,
    ) -> None:
        self._database = database
        self._agent = helpers.agent
        self._gateway = helpers.gateway
        self._curation = helpers.curation
        self._outputs = helpers.outputs
        self._leases = leases
        self._clock = clock
        self._slots = asyncio.Semaphore(slots)
        self._curator_slots = asyncio.Semaphore(slots)
        self._at_once = slots
        self._aside = 0
        self._metrics = metrics

    def room(self, held: int) -> int:
        """Return how many more runs to take; postponed and delivering ones do not count."""
        return max(0, _HELD_FOR_EACH_SLOT * self._at_once - (held - self._aside))

    async def run(self, claim: Claim) -> None:
        """Work on a run to its end; raises Fenced if another scheduler has taken it over."""
        about = {"hermes.job.id": claim.job.id, "hermes.run.id": claim.run_id}
        # A run is one trace, even across schedulers.
        with span("job", about, parent=claim.traceparent, expected=(Fenced,)) as current:
            ending = await self._run(replace(claim, traceparent=claim.traceparent or traceparent()))
            if ending.state is RunState.FAILED:
                current.failed("run_failed")
        self._metrics.count_end(ending.state)
        _log.info("run %s of job %s has ended: %s", claim.run_id, claim.job.id, ending.state)

    async def _run(self, claim: Claim) -> Ending:
        while claim.state is not RunState.DELIVERING:
            if claim.job.kind is JobKind.CURATOR and self._curation is not None:
                # A curator run may wait long for the agent and must not block jobs.
                with self._aside_from_slots():
                    async with self._curator_slots:
                        claim = await self._curation.work(claim)
            else:
                claim = await self._attempt(claim)
        with self._aside_from_slots():
            ending = await self._deliver(claim)
            if self._outputs is not None:
                await asyncio.to_thread(self._outputs.keep, claim, ending)
        now = self._clock.now()
        close = partial(runs.close_run, leases=self._leases, claim=claim, ending=ending, now=now)
        await self._store(close, claim)
        return ending

    async def _attempt(self, claim: Claim) -> Claim:
        if claim.state is RunState.CLAIMED and claim.attempt.not_before is not None:
            wait = claim.attempt.not_before - self._clock.now()
            with self._aside_from_slots():
                await self._clock.sleep(max(0.0, wait.total_seconds()))
        async with self._slots:
            claim, result = await self._turn(claim)
        now, attempt = self._clock.now(), claim.attempt.number
        again_at = (
            retry_at(attempt, now, claim.job.spec.options) if result.outcome == "failed" else None
        )
        if again_at is not None:
            next_one = Attempt(attempt + 1, not_before=again_at)
            again = replace(claim, state=RunState.CLAIMED, attempt=next_one, error=result.error)
            retry = partial(runs.retry_run, leases=self._leases, claim=again)
            if await self._store(retry, claim):
                _log.info("run %s is tried again at %s: %s", claim.run_id, again_at, result.error)
                return again
        output, error = result.answer, result.error
        claim = replace(claim, state=RunState.DELIVERING, output=output, error=error)
        await self._store(partial(runs.save, leases=self._leases, claim=claim), claim)
        return claim

    @contextmanager
    def _aside_from_slots(self) -> Generator[None]:
        self._aside += 1
        try:
            yield
        finally:
            self._aside -= 1

    async def _turn(self, claim: Claim) -> tuple[Claim, TurnReport]:
        try:
            if claim.state is RunState.CLAIMED:
                claim = await self._start(claim)
            result = await self._watch(claim)
        except CallRefused as refusal:
            result = TurnReport("refused", error=str(refusal))
        answer = _storable(result.answer, _MAX_OUTPUT_BYTES)
        error = _storable(result.error, _MAX_ERROR_BYTES)
        return claim, replace(result, answer=answer, error=error)

    async def _start(self, claim: Claim) -> Claim:
        """Stop the turns that the attempt replaces, then start its own."""
        job = claim.job
        if job.spec.options.overlap_policy is Overlap.REPLACE:
            find = partial(self._database.read, partial(runs.unwanted_of, job_id=job.id))
            for turn_id in await self._retry(claim, find):
                await self._retry(claim, partial(self._agent.stop, job.profile, turn_id))
        ask = await self._ask(claim)
        if any(job.spec.options.budget):
            # Keep a budget that somebody set, until the job itself gets a new one.
            await self._retry(claim, partial(self._agent.limit, job, keeps_set=True))
        try:
            await self._retry(claim, partial(self._start_held, claim, ask))
            attempt = replace(claim.attempt, started_at=self._clock.now())
            started = replace(claim, state=RunState.RUNNING, attempt=attempt)
            await self._store(partial(runs.save, leases=self._leases, claim=started), claim)
        except (Fenced, asyncio.CancelledError):
            await unbroken(self._take_back(claim))
            raise
        return started

    async def _start_held(self, claim: Claim, ask: Ask) -> None:
        """Start the attempt's turn; raises Fenced if the run is no longer held."""
        # Before each try: the run may be cancelled or taken over while the agent is away.
        await self._database.read(partial(runs.check_held, claim=claim))
        await self._agent.start(claim, ask)

    async def _take_back(self, claim: Claim) -> None:
        """Stop a turn whose run was cancelled while it started, unless another scheduler holds the
        run."""
        try:
            if await self._database.read(partial(runs.is_cancelled, claim=claim)):
                await self._agent.stop(claim.job.profile, claim.turn_id)
        except (Unavailable, CallRefused) as error:
            _log.warning(
                "the turn of run %s, which was cancelled, may go on: %s", claim.run_id, error
            )

    async def _ask(self, claim: Claim) -> Ask:
        """Build the request to the agent; raises CallRefused if the job looks like an attack."""
        read = partial(self._database.read, partial(runs.contexts_of, claim=claim))
        contexts = await self._retry(claim, read) if claim.job.spec.options.context_job_ids else []
        texts = [own_words(claim.job), *(f"{each.name}\n{each.output}" for each in contexts)]
        own, *others = await self._retry(claim, partial(self._agent.scan, texts))
        if own:
            raise CallRefused(attack(own))
        judged = [
            replace(context, families=families)
            for context, families in zip(contexts, others, strict=True)
        ]
        denied = {
            *claim.job.spec.denied_commands,
            *(name for each in judged for name in each.denied),
        }
        return Ask(instructions(claim.job), parts(claim.job, judged), sorted(denied))

    async def _watch(self, claim: Claim) -> TurnReport:
        limit = claim.job.spec.options.timeout
        result = partial(self._retry, claim, partial(self._agent.result, claim))
        if limit is None or claim.attempt.started_at is None:
            return await result()
        taken = self._clock.now() - claim.attempt.started_at
        try:
            async with asyncio.timeout((limit - taken).total_seconds()):
                return await result()
        except TimeoutError:
            stop = partial(self._agent.stop, claim.job.profile, claim.turn_id)
            await self._retry(claim, stop)
            stopped = await result()
        if not stopped.error:
            # The turn ended in time, but nobody could see it.
            return stopped
        why = f"it took longer than {limit.total_seconds():g} s"
        return TurnReport("failed", stopped.answer, why)

    async def _deliver(self, claim: Claim) -> Ending:
        read = partial(self._database.read, partial(runs.failed_before, claim=claim))
        failed_before = await self._retry(claim, read)
        notification = build_notification(claim, failed_before=failed_before)
        refusals: list[str] = []
        targets, origin = notification.targets, notification.origin
        for number, target in enumerate(targets if notification.text else ()):
            delivery_id = f"{claim.run_id}.to{number}" if number else claim.run_id
            text = notification.text_for(target)
            order = (claim.job.profile, delivery_id, target, origin, text)
            try:
                await self._retry(claim, partial(self._gateway.deliver, *order))
            except CallRefused as refusal:
                refusals.append(f"{target}: {refusal}" if len(targets) > 1 else f"{refusal}")
        is_silent = not claim.error and prompts.is_silent(claim.output)
        return Ending(claim.error, "; ".join(refusals), is_silent)

    async def _store(self, fn: Callable[[sa.Connection], _T], claim: Claim) -> _T:
        return await self._retry(claim, partial(self._database.write, fn))

    async def _retry(self, claim: Claim, call: Callable[[], Awaitable[_T]]) -> _T:
        return await until_answered(self._clock, f"run {claim.run_id}", call)


def _storable(text: str, max_bytes: int) -> str:
    """Remove NUL, which PostgreSQL cannot store, and cut the text."""
    data = text.replace("\0", "\ufffd").encode()
    if len(data) <= max_bytes:
        return data.decode()
    return data[:max_bytes].decode(errors="ignore") + "\n\n… (this was longer)"
