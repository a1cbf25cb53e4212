"""Takes up the items of batches, and works on them."""

import asyncio
import logging
from functools import partial

from scheduler_service.batch_records import Batch, BatchState, ItemClaim
from scheduler_service.batches.runner import ItemRunner
from scheduler_service.storage import batch_claims, batches, claims
from scheduler_service.storage.batches import CHANNEL
from scheduler_service.storage.claims import Holder
from services.clock import Clock
from services.database import Database, Hint
from services.database.leases import Fenced, Lease, LeaseKeeper
from services.database.queue import poll
from services.database.retries import until_answered
from services.lifecycle import Workers
from services.telemetry.logs import bind

_log = logging.getLogger(__name__)

_SLEEP_S = 1.0
"""Shorter than a lease, to take over the items of a dead scheduler in time."""
_BETWEEN_LOOKS_S = 0.02


class BatchWorker:
    """Works on items; any number of workers may share a database."""

    def __init__(
        self,
        database: Database,
        runner: ItemRunner,
        workers: Workers,
        *,
        holder: Holder,
        clock: Clock,
    ) -> None:
        self._database = database
        self._runner = runner
        self._workers = workers
        self._holder = holder
        self._keeper = LeaseKeeper(database, holder.leases, clock)
        self._clock = clock
        self._hint = Hint()
        self._held: dict[Lease, asyncio.Task[None]] = {}
        self._looking = asyncio.Lock()
        self._draining = False

    async def run(self) -> None:
        self._hint = self._database.listen(CHANNEL)
        clear = partial(self._holder.leases.clear_earlier_boots, owner=self._holder.owner)
        await until_answered(self._clock, "batches", partial(self._database.write, clear))
        async with asyncio.TaskGroup() as parts:
            looking = poll("batches", self._look, self._hint, between_s=_BETWEEN_LOOKS_S)
            parts.create_task(looking, name="batches")
            parts.create_task(self._keeper.run(), name="item leases")

    async def drain(self) -> None:
        """Take up no more items, and leave the held ones to others; their turns go on."""
        async with self._looking:
            self._draining = True
        held = dict(self._held)
        for task in held.values():
            task.cancel()
        if held:
            await asyncio.wait(held.values())
            let_go = partial(claims.let_go, holder=self._holder, held=list(held))
            await self._database.write(let_go, notify=CHANNEL)

    async def _look(self) -> float:
        """Take up what there is room for; return in how many seconds to look again."""
        wait_s = _SLEEP_S
        async with self._looking:
            if self._draining:
                return wait_s
            for found in await self._database.read(batch_claims.active):
                wait_s = min(wait_s, await self._advance(found))
        return wait_s

    async def _advance(self, found: Batch) -> float:
        if found.state is BatchState.WAITING:
            assert found.resume_at is not None, "a batch that waits knows until when"
            left_s = (found.resume_at - self._clock.now()).total_seconds()
            if left_s > 0:
                return left_s
            await self._database.write(partial(batch_claims.wake, batch_id=found.id))
        if found.running_count >= found.options.worker_count:
            return _SLEEP_S
        budget = found.options.budget_micro_usd
        if 0 < budget <= found.usage.cost_micro_usd and found.done_count < found.item_count:
            stop = partial(
                batches.stop,
                batch_id=found.id,
                reason="its cost has reached its budget",
                state=BatchState.BUDGET_REACHED,
            )
            await self._database.write(stop, notify=CHANNEL)
            return _SLEEP_S
        since, now = self._clock.monotonic(), self._clock.now()
        take = partial(batch_claims.take, of_batch=found, holder=self._holder, now=now)
        for claim in await self._database.write(take):
            self._start(claim, since)
        return _SLEEP_S

    def _start(self, claim: ItemClaim, since: float) -> None:
        task = self._workers.start(f"item {claim.lease.id}", self._work_on(claim))
        self._held[claim.lease] = task
        self._keeper.hold(claim.lease, since, on_lost=task.cancel)
        task.add_done_callback(lambda _: self._end(claim.lease))

    def _end(self, lease: Lease) -> None:
        self._keeper.drop(lease)
        del self._held[lease]
        self._hint.give()

    async def _work_on(self, claim: ItemClaim) -> None:
        try:
            with bind(turn_id=claim.turn_id):
                await self._runner.run(claim)
        except Fenced as error:
            _log.info("%s", error)
