"""The boxes of a template: ready ones, and those in use; a box serves one session only."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from executor_service.backends.base import Backend
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    BoxPoisoned,
    LinkClosed,
    PoolExhausted,
    SandboxLost,
)
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import DEFAULT_TEMPLATE, EndReason
from executor_service.sandboxes.connection import SandboxConnection
from executor_service.sandboxes.inventory import Inventory, PoolOptions, PoolStats
from executor_service.workspaces.folders import Workspaces
from services.errors import Draining
from services.lifecycle import Workers

_CHECK_TIMEOUT_S = 1.0
_REFILL_PAUSE_S = 0.25
"""A pause after a box was taken, because making the next one would slow its first command down."""
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0
_log = logging.getLogger(__name__)


class Pool:
    """Makes boxes, keeps some ready, hands them out and ends them."""

    def __init__(
        self,
        backend: Backend,
        options: PoolOptions,
        workspaces: Workspaces,
        make_registry: Callable[[str], ExecRegistry],
        workers: Workers,
        metrics: ExecutorMetrics,
    ) -> None:
        self._options = options
        self._metrics = metrics
        metrics.pool_misses.labels(options.template)  # start at 0
        self.boxes = Inventory(
            *(backend, options, workspaces, make_registry, workers, self._drop_ready, self._notify)
        )
        self._ready: list[SandboxConnection] = []
        self._changed = asyncio.Condition()
        self._refills = options.prefill
        self._was_used = False
        self._refilling = False
        self._draining = False
        self._waiting_count = 0
        self._hits = 0
        self._misses = 0
        self._count()

    @property
    def stats(self) -> PoolStats:
        ready, claimed = len(self._ready), self.boxes.claimed_count
        return PoolStats(
            template=self._options.template,
            backend=self._options.backend,
            ready_count=ready,
            claimed_count=claimed,
            making_count=self.boxes.held_count + self.boxes.making_count - ready - claimed,
            waiting_count=self._waiting_count,
            hit_count=self._hits,
            miss_count=self._misses,
            warm_size=self._options.warm,
            max_size=self._options.most,
            draining=self._draining,
        )

    async def take(self, wait_s: float) -> tuple[SandboxConnection, bool]:
        """Returns a box with an empty workspace, and whether it was ready.

        Fails with PoolExhausted when no place becomes free in time, or as making a box fails.
        """
        async with self._waiting(wait_s):
            while True:
                ready = await self._pop_ready()
                if ready is not None:
                    self._hits += 1
                    return ready, True
                if key := self._reserve():
                    break
                await self._change()
        self._misses += 1
        self._metrics.pool_misses.labels(self._options.template).inc()
        return await self.boxes.make(key, None), False

    async def make(self, workspace: Path, wait_s: float) -> SandboxConnection:
        """Makes a box over an existing folder; fails as `take` does."""
        async with self._waiting(wait_s):
            while not (key := self._reserve()):
                if self._ready:
                    # A ready box makes room; its place is free when it is gone.
                    ending = self._ready.pop(0)
                    ending.retire(EndReason.LEASE_EXPIRED)
                    await ending.gone.wait()
                    self._check_open()
                else:
                    await self._change()
        return await self.boxes.make(key, workspace)

    def mark_claimed(self, connection: SandboxConnection) -> None:
        self.boxes.mark_claimed(connection)
        self._count()

    def _drop_ready(self, connection: SandboxConnection) -> None:
        with suppress(ValueError):
            self._ready.remove(connection)

    async def _notify(self) -> None:
        self._count()
        async with self._changed:
            self._changed.notify_all()

    async def run(self) -> None:
        retry_s = _FIRST_RETRY_S
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._wants_more)
            if self._was_used:
                await asyncio.sleep(_REFILL_PAUSE_S)
            if not self._wants_more or not (key := self._reserve()):
                continue
            try:
                await self._refill(key)
            except (BackendError, OSError) as error:
                _log.warning("no box can be made, next try in %g s: %s", retry_s, error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
            else:
                retry_s = _FIRST_RETRY_S

    async def resize(self, warm: int, most: int) -> None:
        """Changes how many boxes are kept ready and allowed in total; boxes in use stay."""
        self._options = replace(self._options, warm=warm, most=most)
        self._refills = True
        while len(self._ready) > warm:
            self._ready.pop(0).retire(EndReason.LEASE_EXPIRED)
        await self._notify()

    async def close(self) -> None:
        self._draining = True
        await self._notify()

    async def reopen(self) -> None:
        """Makes and hands out boxes again, after `close`."""
        self._draining = False
        await self._notify()

    async def drain(self) -> None:
        await self.close()
        async with self._changed:
            await self._changed.wait_for(lambda: not self._refilling)
        ready, self._ready = self._ready, []
        for connection in ready:
            connection.retire(EndReason.LEASE_EXPIRED)
        for connection in ready:
            await connection.gone.wait()

    async def _refill(self, key: str) -> None:
        self._refilling = True
        try:
            self._ready.append(await self.boxes.make(key, None))
        finally:
            self._refilling = False
            await self._notify()

    @asynccontextmanager
    async def _waiting(self, wait_s: float) -> AsyncGenerator[None]:
        self._check_open()
        self._refills = self._was_used = True
        try:
            async with asyncio.timeout(wait_s):
                yield
        except TimeoutError:
            raise PoolExhausted(self._exhausted()) from None

    def _check_open(self) -> None:
        if self._draining:
            raise Draining(
                "this executor is draining and takes no new sessions; use another one or try later"
            )

    @property
    def _has_place(self) -> bool:
        return self.boxes.held_count + self.boxes.making_count < self._options.most

    @property
    def _wants_more(self) -> bool:
        if self._draining or not self._refills or not self._has_place:
            return False
        return len(self._ready) < self._options.warm

    def _reserve(self) -> str:
        """Takes a place for a new box and returns its key; empty if all are taken."""
        if not self._has_place:
            return ""
        key = self.boxes.reserve()
        self._count()
        return key

    async def _pop_ready(self) -> SandboxConnection | None:
        while self._ready:
            connection = self._ready.pop(0)
            try:
                await (await connection.link()).ping(_CHECK_TIMEOUT_S)
            except (SandboxLost, LinkClosed, BoxPoisoned, TimeoutError) as error:
                _log.warning("ready box %s is gone: %s", connection.box.key, error)
                connection.retire(EndReason.LEASE_EXPIRED)
            except BackendUnavailable:
                self._ready.append(connection)
                raise
            except BaseException:
                connection.retire(EndReason.LEASE_EXPIRED)
                raise
            else:
                await self._notify()
                return connection
        return None

    async def _change(self) -> None:
        """Waits for a ready box, a free place or the drain."""
        self._waiting_count += 1
        self._count()
        try:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: self._ready or self._has_place or self._draining
                )
        finally:
            self._waiting_count -= 1
            self._count()
        self._check_open()

    def _exhausted(self) -> str:
        most, template = self._options.most, self._options.template
        where = "" if template == DEFAULT_TEMPLATE else f"templates.{template}."
        kind = "" if template == DEFAULT_TEMPLATE else f" of template {template}"
        return (
            f"all {most} sandboxes{kind} are in use (executor.{where}max_sandboxes); "
            "try again later"
        )

    def _count(self) -> None:
        stats = self.stats
        labels = (stats.backend, stats.template)
        for state in ("ready", "claimed", "making", "waiting"):
            self._metrics.pool.labels(*labels, state).set(getattr(stats, f"{state}_count"))
        self._metrics.pool_size.labels(*labels, "warm").set(stats.warm_size)
        self._metrics.pool_size.labels(*labels, "most").set(stats.max_size)
