"""Work that this scheduler has claimed, done for as long as it holds the leases."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from scheduler_service.storage import claims
from scheduler_service.storage.claims import Holder
from services.clock import Clock
from services.database import Database, Hint
from services.database.leases import Fenced, Lease, LeaseKeeper
from services.database.queue import poll
from services.database.retries import until_answered
from services.lifecycle import Workers

_log = logging.getLogger(__name__)

# Batches bursts of hints, for example when many jobs are created.
_BETWEEN_LOOKS_S = 0.02
_DATABASE_RETRY_S = 1.0


class ClaimLoop:
    """Looks for work to claim, and runs what is claimed; any number may share a database."""

    def __init__(
        self,
        database: Database,
        workers: Workers,
        *,
        holder: Holder,
        clock: Clock,
        channel: str,
        what: str,
    ) -> None:
        """`channel` tells of new work; `what` is one piece of it, such as "run", for logs."""
        self._database = database
        self._workers = workers
        self._holder = holder
        self._keeper = LeaseKeeper(database, holder.leases, clock)
        self._clock = clock
        self._channel = channel
        self._what = what
        self._hint = Hint()
        self._held: dict[Lease, asyncio.Task[None]] = {}
        self._looking = asyncio.Lock()
        self._draining = False

    @property
    def leases(self) -> Collection[Lease]:
        return self._held.keys()

    async def run(self, advance: Callable[[], Awaitable[float]], sleep_s: float) -> None:
        """Claim work; `advance` does so, and returns in how many seconds to look again."""

        async def look() -> float:
            async with self._looking:
                return sleep_s if self._draining else await advance()

        self._hint = self._database.listen(self._channel)
        clear = partial(self._holder.leases.clear_earlier_boots, owner=self._holder.owner)
        name = f"{self._what}s"
        await until_answered(self._clock, name, partial(self._database.write, clear))
        async with asyncio.TaskGroup() as parts:
            looking = poll(
                name, look, self._hint, retry_s=_DATABASE_RETRY_S, between_s=_BETWEEN_LOOKS_S
            )
            parts.create_task(looking, name=name)
            parts.create_task(self._keeper.run(), name=f"leases of {name}")

    async def drain(self) -> None:
        """Claim no more, and leave what is held to others; turns go on."""
        async with self._looking:
            self._draining = True
        held = dict(self._held)
        for task in held.values():
            task.cancel()
        if held:
            await asyncio.wait(held.values())
            let_go = partial(claims.let_go, holder=self._holder, held=list(held))
            await self._database.write(let_go, notify=self._channel)

    def start(self, lease: Lease, since: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do claimed work until it is done or its lease is lost; held `since`, monotonic."""
        task = self._workers.start(f"{self._what} {lease.id}", self._unless_fenced(work))
        self._held[lease] = task
        self._keeper.hold(lease, since, on_lost=task.cancel)
        task.add_done_callback(lambda _: self._let_go(lease))

    def _let_go(self, lease: Lease) -> None:
        # If the work failed, it is taken over once its lease ends.
        self._keeper.drop(lease)
        del self._held[lease]
        # Other work may have waited for this to end.
        self._hint.give()

    async def _unless_fenced(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Fenced as error:
            _log.info("%s", error)
