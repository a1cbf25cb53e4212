"""Takes up the items of batches, and works on them."""

from functools import partial

from scheduler_service.batch_records import Batch, BatchState, ItemClaim
from scheduler_service.batches.runner import ItemRunner
from scheduler_service.runs.claim_loop import ClaimLoop
from scheduler_service.storage import batch_claims, batches
from scheduler_service.storage.batches import CHANNEL
from scheduler_service.storage.claims import Holder
from services.clock import Clock
from services.database import Database
from services.lifecycle import Workers
from services.telemetry.logs import bind

_SLEEP_S = 1.0
"""Shorter than a lease, to take over the items of a dead scheduler in time."""


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
        self._held = ClaimLoop(
            database, workers, holder=holder, clock=clock, channel=CHANNEL, what="item"
        )
        self._holder = holder
        self._clock = clock

    async def run(self) -> None:
        await self._held.run(self._take_up, _SLEEP_S)

    async def drain(self) -> None:
        """Take up no more items, and leave the held ones to others; their turns go on."""
        await self._held.drain()

    async def _take_up(self) -> float:
        """Take up what there is room for; return in how many seconds to look again."""
        wait_s = _SLEEP_S
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
            self._held.start(claim.lease, since, partial(self._work_on, claim))
        return _SLEEP_S

    async def _work_on(self, claim: ItemClaim) -> None:
        with bind(turn_id=claim.turn_id):
            await self._runner.run(claim)
