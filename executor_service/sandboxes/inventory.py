"""The boxes of a pool, each from its creation until it is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, field

from executor_service.backends.base import Backend, Box, BoxSpec, Limits
from executor_service.errors import BoxCreateFailed, SandboxLost
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.records.sandboxes import DEFAULT_TEMPLATE, EndReason
from executor_service.sandboxes.connection import SandboxConnection
from executor_service.sandboxes.orphan_reaper import destroy
from executor_service.workspaces.folders import Workspaces
from services.ids import new_id
from services.lifecycle import Workers

_NOTED_WITHIN_S = 2.0


class PoolOptions(Struct, frozen=True):
    """What boxes a pool makes, and how many."""

    owner: str
    backend: str
    box_secret: Callable[[str], str]
    """Returns the secret of a box by its key."""
    template: str = DEFAULT_TEMPLATE
    limits: Limits = field(default_factory=Limits)
    warm: int = 1
    """Boxes to keep ready."""
    most: int = 32
    """Most boxes in total."""
    prefill: bool = True
    """Whether to make boxes before the first request."""
    orphan_timeout_s: float = 1800.0
    """How long a box lives without an executor."""


class PoolStats(Struct, frozen=True):
    """The state of a pool, with the fields of its message."""

    template: str
    backend: str
    ready_count: int
    claimed_count: int
    making_count: int
    waiting_count: int
    """Callers that wait for a free place."""
    hit_count: int
    """Callers since the start that got a ready box."""
    miss_count: int
    """Callers since the start for whom a box had to be made."""
    warm_size: int
    max_size: int
    draining: bool


class _Held(Struct):
    connection: SandboxConnection
    fresh_workspace: Path | None
    """Its new workspace, while no session has claimed it."""
    claimed: bool


class Inventory:
    """Makes boxes and supervises each until it is gone."""

    def __init__(
        self,
        backend: Backend,
        options: PoolOptions,
        workspaces: Workspaces,
        make_registry: Callable[[str], ExecRegistry],
        workers: Workers,
        on_end: Callable[[SandboxConnection], None],
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        """Calls `on_end` before an ended box is removed, `on_change` when the number changes."""
        self._backend = backend
        self._options = options
        self._workspaces = workspaces
        self._make_registry = make_registry
        self._workers = workers
        self._on_end = on_end
        self._on_change = on_change
        self._held: dict[str, _Held] = {}
        self._making: set[str] = set()

    @property
    def held_count(self) -> int:
        return len(self._held)

    @property
    def claimed_count(self) -> int:
        return sum(held.claimed for held in self._held.values())

    @property
    def making_count(self) -> int:
        return len(self._making)

    def keys(self) -> Set[str]:
        """The keys of all boxes that exist or are being made."""
        return self._held.keys() | self._making

    async def wait_free(self, folder: Path) -> None:
        """Waits until no ending box uses a folder."""
        for held in list(self._held.values()):
            if held.connection.box.workspace == folder and held.connection.is_ending:
                await held.connection.gone.wait()

    def reserve(self) -> str:
        """Returns the key of a box to be made, which takes a place from now on."""
        key = new_id("sbx")
        self._making.add(key)
        return key

    def mark_claimed(self, connection: SandboxConnection) -> None:
        held = self._held[connection.box.key]
        held.fresh_workspace, held.claimed = None, True

    async def make(self, key: str, workspace: Path | None) -> SandboxConnection:
        """Makes a reserved box, with a new workspace if none is given."""
        fresh = None
        try:
            if workspace is None:
                workspace = fresh = await self._workspaces.fresh()
            box = await self._backend.create(self._spec(key, workspace))
            connection = self._hold(box, self._make_registry(key), fresh, claimed=False)
        except BaseException:
            if fresh is not None:
                await self._workspaces.discard(fresh, self._backend)
            raise
        finally:
            self._making.discard(key)
            await self._on_change()
        try:
            await connection.link()
        except BaseException as error:
            connection.retire(EndReason.LEASE_EXPIRED)
            if isinstance(error, SandboxLost):
                raise BoxCreateFailed("the new box ended at once") from error
            raise
        return connection

    def _spec(self, key: str, workspace: Path) -> BoxSpec:
        options = self._options
        return BoxSpec(
            *(key, options.owner, options.template, workspace, options.limits),
            is_bound=not self._workspaces.is_ours(workspace),
            secret_sha256=sha256(options.box_secret(key).encode()).hexdigest(),
        )

    def adopt(self, box: Box, registry: ExecRegistry) -> SandboxConnection:
        """Supervises a box that a session already has."""
        return self._hold(box, registry, None, claimed=True)

    def _hold(
        self, box: Box, registry: ExecRegistry, fresh_workspace: Path | None, *, claimed: bool
    ) -> SandboxConnection:
        orphan_s = self._options.orphan_timeout_s
        secret = self._options.box_secret(box.key)
        connection = SandboxConnection(
            box, secret, self._backend, registry, self._workers, orphan_s
        )
        self._held[box.key] = _Held(connection, fresh_workspace, claimed)
        self._workers.start(f"box {box.key}", self._supervise(connection))
        return connection

    async def _supervise(self, connection: SandboxConnection) -> None:
        await connection.run()
        self._on_end(connection)
        await self._flush_commands(connection)
        await destroy(self._backend, connection.box)
        held = self._held.pop(connection.box.key)
        if held.fresh_workspace is not None:
            await self._workspaces.discard(held.fresh_workspace, self._backend)
        connection.gone.set()
        await self._on_change()

    async def _flush_commands(self, connection: SandboxConnection) -> None:
        """Waits until its commands are in the journal, but not for a full disk."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_NOTED_WITHIN_S):
                await connection.commands.flush()
