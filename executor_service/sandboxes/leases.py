"""Leases: which session has which sandbox, its token and epoch, and how long it lives."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from executor_service.backends.base import Capabilities
from executor_service.errors import BackendUnavailable, PoolExhausted, SandboxLost
from executor_service.journal import Journal
from executor_service.metrics import ExecutorMetrics
from executor_service.records.network_policy import NetworkPolicy
from executor_service.records.sandboxes import (
    AcquireRequest,
    Claim,
    EndReason,
    Isolation,
    Lifetimes,
    SandboxState,
)
from executor_service.sandboxes.connection import SandboxConnection
from executor_service.sandboxes.sandbox import LeaseAuthorizer, Proof, Sandbox
from executor_service.sandboxes.templates import Template, Templates
from executor_service.sandboxes.workspace_stores import Allocation, WorkspaceAllocator
from executor_service.workspaces.catalog import WorkspaceKind
from services.clock import Clock
from services.errors import FailedPrecondition, NotFound
from services.lifecycle import Workers, each_of, unbroken

_TICK_S = 1.0
_STRENGTH = tuple(Isolation)

_log = logging.getLogger(__name__)


class Launch(StrEnum):
    """How a sandbox was started."""

    WARM = "warm"
    COLD = "cold"
    RESUMED = "resumed"


class Grant(Struct, frozen=True):
    """A sandbox and the token of its lease."""

    sandbox: Sandbox
    token: str
    launch: Launch


class Leases:
    """The sandboxes of all sessions, at most one for each."""

    def __init__(
        self,
        templates: Templates,
        journal: Journal,
        allocator: WorkspaceAllocator,
        lifetimes: Lifetimes,
        clock: Clock,
        workers: Workers,
        metrics: ExecutorMetrics,
    ) -> None:
        self._templates = templates
        self._journal = journal
        self._allocator = allocator
        self._lifetimes = lifetimes
        self._clock = clock
        self._workers = workers
        self._authorizer = LeaseAuthorizer(journal.lease_token, metrics)
        self._sandboxes: dict[str, Sandbox] = {}
        """Also those that have ended, until they are forgotten."""
        self._in_use: dict[str, Sandbox] = {}
        """Those that have not ended, or whose box has not."""
        self._by_session: dict[tuple[str, str], Sandbox] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def __iter__(self) -> Iterator[Sandbox]:
        """Iterates over the sandboxes that are in use."""
        return iter(list(self._in_use.values()))

    @property
    def remembered(self) -> list[Sandbox]:
        """All sandboxes, also those that have ended."""
        return list(self._sandboxes.values())

    def find(self, profile: str, sandbox_id: str) -> Sandbox:
        """Returns a profile's sandbox; fails with NotFound, also if it is another profile's."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.claim.profile != profile:
            self._authorizer.record_refusal(sandbox.claim, "other_profile")
            sandbox = None
        if sandbox is None:
            raise NotFound(f"there is no sandbox {sandbox_id}")
        return sandbox

    def living(self, profile: str | None) -> list[Sandbox]:
        """A profile's ready sandboxes, or those of all profiles, oldest first."""
        found = [
            sandbox
            for sandbox in self
            if sandbox.state is SandboxState.READY and profile in (None, sandbox.claim.profile)
        ]
        return sorted(found, key=lambda sandbox: sandbox.claim.claimed_at)

    def authorize(self, proof: Proof) -> Sandbox:
        """Returns the sandbox of a valid lease, which every call renews.

        Fails with NotFound, LeaseInvalid or StaleEpoch.
        """
        sandbox = self.find(proof.profile, proof.sandbox_id)
        self._authorizer.check(sandbox, proof)
        return sandbox

    async def acquire(self, request: AcquireRequest) -> Grant:
        """Gives a session its sandbox: the one that it has, else a ready one, else a new one.

        Fails with BackendUnavailable, InvalidArgument, PathInvalid, PoolExhausted or Draining; for
        its workspace with NotFound, FailedPrecondition or LimitExceeded.
        """
        session = (request.profile, request.session_id)
        async with self._lock(session):
            current = self._by_session.get(session)
            if current is not None:
                _check_isolation(current.claim.backend, current.claim.isolation, request)
                _check_workspace(self._allocator, current, request)
                with suppress(SandboxLost):
                    return await self._resume(current, request)
                await self._end(current, SandboxState.LOST, EndReason.SANDBOX_LOST)
            template = self._templates.find(request.template)
            found = template.capabilities
            _check_isolation(found.name, found.isolation, request)
            _check_network(found, request.network)
            async with self._allocator.allocate(template, request) as allocation:
                connection, launch = await _provide(
                    self._templates, template, allocation.folder, request.wait_s
                )
                # Not interrupted when the caller leaves: the journal and memory must agree.
                return await unbroken(
                    self._claim_or_end(template, connection, request, launch, allocation)
                )

    async def _claim_or_end(
        self,
        template: Template,
        connection: SandboxConnection,
        request: AcquireRequest,
        launch: Launch,
        allocation: Allocation,
    ) -> Grant:
        try:
            return await self._claim(template, connection, request, launch, allocation)
        except BaseException:
            connection.retire(EndReason.LEASE_EXPIRED)
            raise

    async def release(self, sandbox: Sandbox) -> None:
        """Ends a sandbox but keeps its workspace; BackendUnavailable while it is awaited."""
        sandbox.check_settled()
        async with self._lock((sandbox.claim.profile, sandbox.claim.session_id)):
            if sandbox.claim.state is SandboxState.READY:
                await self._end(sandbox, SandboxState.RELEASED, EndReason.LEASE_EXPIRED)

    def restore(self, sandbox: Sandbox) -> None:
        claim = sandbox.claim
        self._sandboxes[claim.sandbox_id] = sandbox
        if claim.state is SandboxState.READY:
            self._in_use[claim.sandbox_id] = sandbox
            self._by_session[claim.profile, claim.session_id] = sandbox

    def forget(self, sandbox: Sandbox) -> None:
        self._sandboxes.pop(sandbox.claim.sandbox_id, None)

    async def run(self) -> None:
        """Ends sandboxes whose time has run out, until cancelled."""
        while True:
            await self._clock.sleep(_TICK_S)
            for sandbox in self:
                if sandbox.claim.state is SandboxState.READY and not sandbox.expires_in_s:
                    name = f"end {sandbox.claim.sandbox_id}"
                    self._workers.start(name, self._end_if_over(sandbox))

    async def release_idle(self) -> None:
        """Ends sandboxes without a running command and waits until they are gone."""
        for lock in list(self._locks.values()):
            async with lock:
                pass
        ready = [s for s in self if s.state is SandboxState.READY and s.is_settled]
        idle = [sandbox for sandbox in ready if not sandbox.running]
        boxes = [sandbox.connection for sandbox in idle if sandbox.connection is not None]
        await each_of(map(self.release, idle))
        for connection in boxes:
            await connection.gone.wait()

    async def _end_if_over(self, sandbox: Sandbox) -> None:
        async with self._lock((sandbox.claim.profile, sandbox.claim.session_id)):
            if sandbox.claim.state is not SandboxState.READY or sandbox.expires_in_s:
                return
            if sandbox.state is SandboxState.LOST:
                await self._end(sandbox, SandboxState.LOST, EndReason.SANDBOX_LOST)
            else:
                await self._end(sandbox, SandboxState.RELEASED, EndReason.LEASE_EXPIRED)

    async def _end(self, sandbox: Sandbox, state: SandboxState, reason: EndReason) -> None:
        claim, connection = sandbox.claim, sandbox.connection
        now = self._clock.now().timestamp()
        sandbox.claim = replace(claim, state=state, ended_at=now)
        self._by_session.pop((claim.profile, claim.session_id), None)
        _log.info("sandbox %s ends: %s", claim.sandbox_id, state)
        if connection is None:
            sandbox.miss_box()
        else:
            connection.retire(reason)
        # In a task of its own, whether or not the caller waits for it.
        gone = self._workers.start(f"last of {claim.sandbox_id}", self._leave(sandbox, connection))
        # First, so that it is recorded even if the caller leaves.
        await self._journal.put_claim(sandbox.claim)
        await self._allocator.catalog.change(claim.workspace_id, used_at=now)
        await asyncio.shield(gone)

    async def _leave(self, sandbox: Sandbox, connection: SandboxConnection | None) -> None:
        if connection is not None:
            await connection.gone.wait()
        sandbox.connection = None
        self._in_use.pop(sandbox.claim.sandbox_id, None)
        self._allocator.catalog.mark_unchecked(Path(sandbox.claim.workspace).name)

    async def _claim(
        self,
        template: Template,
        connection: SandboxConnection,
        request: AcquireRequest,
        launch: Launch,
        allocation: Allocation,
    ) -> Grant:
        sandbox_id, epoch = connection.box.key, 1
        claim = Claim(
            sandbox_id=sandbox_id,
            profile=request.profile,
            session_id=request.session_id,
            backend=template.capabilities.name,
            isolation=template.capabilities.isolation,
            workspace=str(connection.box.workspace),
            claimed_at=self._clock.now().timestamp(),
            lifetimes=_lifetimes(request, self._lifetimes),
            epoch=epoch,
            request_id=request.request_id,
            workspace_id=connection.box.workspace.name if allocation.kept else "",
            template=template.name,
            network=_network(template, request),
            begun_s=self._clock.monotonic(),
            boot_id=self._journal.boot_id,
        )
        if claim.network is not None:
            await connection.apply_policy(claim.network, template.networks)
        await self._allocator.assign(allocation, connection.box.workspace, request.session_id)
        await self._journal.put_claim(claim)
        connection.epoch = epoch
        template.pool.mark_claimed(connection)
        sandbox = Sandbox(claim, connection.commands, connection, self._clock)
        self.restore(sandbox)
        return Grant(sandbox, self._journal.lease_token(sandbox_id, epoch), launch)

    async def _resume(self, sandbox: Sandbox, request: AcquireRequest) -> Grant:
        """Gives a sandbox to a new owner, or to the same owner that repeats its request."""
        connection, claim = sandbox.get_connection(), sandbox.claim
        sandbox.use()
        has = claim.network
        template = self._templates.find_by_box(connection.box)
        if claim.request_id != request.request_id:
            network = claim.next_network(request.network)
            if network != has:
                _check_network(template.capabilities, network)
            claim = replace(
                claim,
                epoch=claim.epoch + 1,
                request_id=request.request_id,
                lifetimes=_lifetimes(request, claim.lifetimes),
                network=network,
            )
            await self._journal.put_claim(claim)
            sandbox.claim = claim
        if connection.is_lost:
            raise SandboxLost(f"the box of sandbox {claim.sandbox_id} is gone")
        connection.epoch = claim.epoch
        if claim.network is not None and claim.network != has:
            await connection.apply_policy(claim.network, template.networks)
        token = self._journal.lease_token(claim.sandbox_id, claim.epoch)
        return Grant(sandbox, token, Launch.RESUMED)

    def _lock(self, session: tuple[str, str]) -> asyncio.Lock:
        lock = self._locks.get(session)
        if lock is None:
            lock = self._locks[session] = asyncio.Lock()
        return lock


def _check_workspace(
    allocator: WorkspaceAllocator, current: Sandbox, request: AcquireRequest
) -> None:
    has = Path(current.claim.workspace).name
    if request.workspace_id and request.workspace_id != has:
        allocator.catalog.find(request.profile, request.workspace_id, WorkspaceKind.WORKSPACE)
        raise FailedPrecondition(
            f"session {request.session_id} has a sandbox over another workspace, "
            f"{has}: release it first"
        )


async def _provide(
    templates: Templates, template: Template, folder: Path | None, wait_s: float
) -> tuple[SandboxConnection, Launch]:
    """Returns a box; over a folder only when no earlier box uses the folder."""
    if folder is None:
        connection, was_ready = await template.pool.take(wait_s)
        return connection, Launch.WARM if was_ready else Launch.COLD
    try:
        async with asyncio.timeout(wait_s):
            await templates.wait_free(folder)
    except TimeoutError:
        message = "the session's previous sandbox has not ended yet; try again"
        raise PoolExhausted(message) from None
    return await template.pool.make(folder, wait_s), Launch.COLD


def _check_isolation(backend: str, isolation: Isolation, request: AcquireRequest) -> None:
    if _STRENGTH.index(isolation) < _STRENGTH.index(request.min_isolation):
        raise BackendUnavailable(
            f"{backend} isolates by {isolation}, and the request needs {request.min_isolation}; "
            "configure a stronger backend, or name a template that has one"
        )


def _network(template: Template, request: AcquireRequest) -> NetworkPolicy | None:
    has_policies = bool(template.capabilities.network_policies)
    return (request.network or template.network) if has_policies else None


def _check_network(found: Capabilities, policy: NetworkPolicy | None) -> None:
    if policy is not None and policy.mode not in found.network_policies:
        raise BackendUnavailable(
            f"{found.name} cannot enforce a network policy: its commands use the network of their "
            "machine; name a template with another backend, or send no policy"
        )


def _lifetimes(request: AcquireRequest, usual: Lifetimes) -> Lifetimes:
    return Lifetimes(
        request.lifetimes.idle_s or usual.idle_s, request.lifetimes.total_s or usual.total_s
    )
