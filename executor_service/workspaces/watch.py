"""Holding sandboxes to the size of their workspace, where nothing below the executor does."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from executor_service.backends.base import Enforcement, WorkspacePlace
from executor_service.backends.stores import Size, WorkspaceStore
from executor_service.claims.leases import Leases
from executor_service.claims.sandbox import Sandbox
from executor_service.errors import BackendError
from executor_service.link import ExitReason
from executor_service.pools.templates import Templates
from executor_service.supervisor.trees import measure
from executor_service.workspaces.folders import Workspaces
from executor_service.workspaces.rounds import Rounds
from executor_service.workspaces.stores import Keeping
from services.errors import LimitExceeded

_HERE = ""
_TICK_S = 0.5
_INTERVAL_S = 2.0
_INTERVAL_ELSEWHERE_S = 5.0
_ELSEWHERE_WITHIN_S = 60.0
_SHARE_OF_TIME = 0.05
"""How much of the time may be spent on looking at one place."""
_SHARE_APART = 0.2
"""How much on looking at one workspace in which there is much."""
_APART_AT_ONCE = 2
"""How many of those are looked at side by side in one place, each by a process of its own."""
_MOST_ENTRIES = 50_000
"""How many are looked at by the executor itself, before others have their turn."""
_HIDDEN = (
    "the workspace has folders too deep inside each other, or closed, so that nobody can tell what "
    "they take; remove them first"
)

_log = logging.getLogger(__name__)


class WorkspaceWatch:
    """Looks every few seconds how large the workspaces are to which something is written."""

    def __init__(
        self, leases: Leases, workspaces: Workspaces, templates: Templates, keeping: Keeping
    ) -> None:
        self._leases = leases
        self._workspaces = workspaces
        self._templates = templates
        self._keeping = keeping
        self._full: set[str] = set()
        """The sandboxes that had filled their workspaces elsewhere when somebody looked last."""
        self._apart: set[str] = set()
        """The sandboxes that have so much that it is looked at by itself, and holds up nobody."""
        self._rooms: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_APART_AT_ONCE)
        )
        """For those, by the place where they are."""
        self._writers: defaultdict[str, set[asyncio.Timeout]] = defaultdict(set)
        """What is written from outside, by the sandbox."""

    async def run(self) -> None:
        """Ends what writes to workspaces that are over the limit, until cancelled."""
        rounds, apart = Rounds(_SHARE_OF_TIME), Rounds(_SHARE_APART)
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_TICK_S)
                living = {sandbox.claim.sandbox_id for sandbox in self._leases}
                self._full &= living
                self._apart &= living
                apart.forget_others(living)
                for look in (*self._together(rounds), *self._each_apart(apart)):
                    group.create_task(look)

    def _together(self, rounds: Rounds) -> Iterator[Coroutine[Any, Any, None]]:
        """The looks that are due at the places of workspaces."""
        if rounds.is_due(_HERE):
            yield rounds.look(_HERE, _INTERVAL_S, self._look_here)
        for place, (store, written) in self._written_elsewhere().items():
            if rounds.is_due(place):
                look = partial(self._look_at, store, written, _ELSEWHERE_WITHIN_S)
                yield rounds.look(place, _INTERVAL_ELSEWHERE_S, look)

    def _each_apart(self, rounds: Rounds) -> Iterator[Coroutine[Any, Any, None]]:
        """The looks that are due at workspaces in which there is much."""
        for sandbox, most_bytes, store in self._written():
            ident = sandbox.claim.sandbox_id
            if ident in self._apart and rounds.is_due(ident):
                there = store or self._keeping.here
                look = partial(self._look_at, there, [(sandbox, most_bytes)])
                pause_s = _INTERVAL_S if store is None else _INTERVAL_ELSEWHERE_S
                yield rounds.look(ident, pause_s, look, self._rooms[there.place])

    async def _look_here(self) -> None:
        for sandbox, most_bytes, store in self._written():
            if store is None and sandbox.claim.sandbox_id not in self._apart:
                size = await _seen(Path(sandbox.claim.workspace), most_bytes)
                if _is_unclear(size, most_bytes):
                    self._apart.add(sandbox.claim.sandbox_id)
                elif not size.is_all:
                    self._end_writers(sandbox)

    def _written_elsewhere(self) -> dict[str, tuple[WorkspaceStore, list[tuple[Sandbox, int]]]]:
        """The sandboxes that write now where others look, and are looked at together, by place."""
        found: dict[str, tuple[WorkspaceStore, list[tuple[Sandbox, int]]]] = {}
        for sandbox, most_bytes, store in self._written():
            if store is not None and sandbox.claim.sandbox_id not in self._apart:
                found.setdefault(store.place, (store, []))[1].append((sandbox, most_bytes))
        return found

    async def _look_at(
        self,
        store: WorkspaceStore,
        written: list[tuple[Sandbox, int]],
        within_s: float | None = None,
    ) -> None:
        wanted = {Path(sandbox.claim.workspace): most_bytes for sandbox, most_bytes in written}
        try:
            async with asyncio.timeout(within_s):
                sizes = await store.measure(wanted)
        except (BackendError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                self._apart |= {sandbox.claim.sandbox_id for sandbox, _ in written}
            why = str(error) or f"not done within {within_s:g} s"
            _log.warning("workspaces at %s are not looked at now: %s", store.place, why)
            return
        for sandbox, _ in written:
            self._full.discard(sandbox.claim.sandbox_id)
            size = sizes.get(Path(sandbox.claim.workspace))
            if size is not None and not size.is_all:
                self._full.add(sandbox.claim.sandbox_id)
                self._end_writers(sandbox)

    def _written(self) -> Iterator[tuple[Sandbox, int, WorkspaceStore | None]]:
        """The sandboxes that write now, how large their workspaces may be, and who can tell; None
        is this process."""
        for sandbox in self._leases:
            if sandbox.running or sandbox.claim.sandbox_id in self._writers:
                limit = self._limit_of(sandbox)
                if limit is not None:
                    yield sandbox, *limit

    @asynccontextmanager
    async def writing(self, sandbox: Sandbox, path: str, length: int) -> AsyncGenerator[None]:
        """Holds what is written from outside to the limit, for the time of the block.

        Fails with LimitExceeded when there is no room for it, or no more.
        """
        limit = self._limit_of(sandbox)
        if limit is None:
            yield
            return
        most_bytes, store = limit
        ident = sandbox.claim.sandbox_id
        is_inside = not path.startswith("/") or f"{path}/".startswith("/workspace/")
        if is_inside and await self._used(sandbox, most_bytes, store) + length > most_bytes:
            raise _full(most_bytes)
        writer = asyncio.timeout(None)
        try:
            async with writer:
                self._writers[ident].add(writer)
                try:
                    yield
                finally:
                    self._writers[ident].discard(writer)
                    if not self._writers[ident]:
                        del self._writers[ident]
        except TimeoutError:
            if not writer.expired():
                raise
            raise _full(most_bytes) from None

    async def _used(self, sandbox: Sandbox, most_bytes: int, store: WorkspaceStore | None) -> int:
        """What a workspace takes; one elsewhere is asked about only if it was full."""
        path, ident = Path(sandbox.claim.workspace), sandbox.claim.sandbox_id
        if store is None:
            size = await _seen(path, most_bytes)
            if _is_unclear(size, most_bytes):
                here = self._keeping.here
                with suppress(BackendError):
                    async with self._rooms[here.place]:
                        size = (await here.measure({path: most_bytes}))[path]
            if _is_unclear(size, most_bytes):
                raise LimitExceeded(_HIDDEN)
            return size.seen_bytes
        if ident not in self._full:
            return 0
        await self._look_at(store, [(sandbox, most_bytes)], _ELSEWHERE_WITHIN_S)
        return most_bytes if ident in self._full else 0

    def _end_writers(self, sandbox: Sandbox) -> None:
        ident = sandbox.claim.sandbox_id
        _log.warning("sandbox %s has filled its workspace", ident)
        for command in sandbox.running:
            command.cancel(ExitReason.DISK_QUOTA)
        for writer in self._writers.get(ident, set[asyncio.Timeout]()):
            if not writer.expired():
                writer.reschedule(asyncio.get_running_loop().time())

    def _limit_of(self, sandbox: Sandbox) -> tuple[int, WorkspaceStore | None] | None:
        """How large its workspace may be, and who looks; None where nobody does."""
        if sandbox.live is None or not self._workspaces.is_ours(Path(sandbox.claim.workspace)):
            return None
        template = self._templates.of(sandbox.live.box)
        found = template.capabilities
        if found.limits.workspace is not Enforcement.WATCHED:
            return None
        most_bytes = template.limits.workspace_bytes
        if found.workspaces is WorkspacePlace.HERE:
            return most_bytes, None
        return (most_bytes, self._keeping.store_of(template)) if found.measures_workspaces else None


async def _seen(folder: Path, most_bytes: int) -> Size:
    """What the executor itself sees of a workspace here."""
    return Size(*await asyncio.to_thread(measure, folder, most_bytes, _MOST_ENTRIES))


def _is_unclear(size: Size, most_bytes: int) -> bool:
    return not size.is_all and size.seen_bytes <= most_bytes


def _full(most_bytes: int) -> LimitExceeded:
    return LimitExceeded(
        f"the workspace has no room for this: it may take {most_bytes} bytes "
        "(executor.workspace_bytes); remove something first"
    )
