"""Access to executors: the one that has a session's sandbox, else any.

Several executors may share one address; each then names its own endpoint. If one is unreachable for
a few seconds, the sessions of its sandboxes move elsewhere.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import grpc.aio

from agent_service.clients.patience import LIMIT_S, patiently
from agent_service.storage import bindings
from agent_service.storage.bindings import Left
from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.database import Database
from services.database.queue import poll
from services.errors import HermesError, Reason, is_passing, message_of, reason_of
from services.ids import new_id
from services.lifecycle import each_of
from services.rpc.channels import Channels
from services.rpc.deadlines import DEFAULT_UNARY_S

ACQUIRE_DEADLINE_S = 90
PROBE_S = 1.5
REMEMBERED_S = 30.0
"""How long an executor that was away gets one attempt only, without waiting."""
LOST_TIMES = 12
"""The factor by which patient callers wait longer for an executor to return."""
ONLY_S = 3.0
"""How long the answer of the only executor is valid: a request less for each session."""
TURN_S = 1.0
"""How long a claim queues at one of several executors before it tries the next."""
_LEAST_S = 0.05
"""The minimum time that a claim queues; 0 would mean the default."""

AWAY = frozenset({Reason.SERVICE_UNAVAILABLE, Reason.DRAINING})


class Executors:
    """The executors of a deployment."""

    def __init__(self, channels: Channels, away_s: float) -> None:
        self._channels = channels
        self._away_s = away_s
        self._away_since: dict[str, float] = {}
        self._only: sandbox_pb2.GetCapabilitiesResponse | None = None
        """What the only executor there is has just said of itself."""
        self._only_seen_at = 0.0

    def channel(self, endpoint: str) -> grpc.aio.Channel:
        """Return the channel of an endpoint; any executor's if it is empty."""
        return self._channels.at(endpoint) if endpoint else self._channels.to("executor")

    def patience_s(self, endpoint: str) -> float:
        """Return how long to wait for an executor: less if another could replace it."""
        if not endpoint:
            return LIMIT_S
        since = self._away_since.get(endpoint)
        is_new = since is None or asyncio.get_running_loop().time() - since > REMEMBERED_S
        return self._away_s if is_new else 0.0

    @property
    def lost_s(self) -> float:
        return LOST_TIMES * self._away_s

    def is_away(self, endpoint: str, error: grpc.aio.AioRpcError) -> bool:
        """Return whether an error, after all retries, requires another executor to take over."""
        if not endpoint or (reason := reason_of(error)) not in AWAY:
            return False
        if reason is Reason.SERVICE_UNAVAILABLE:
            self._away_since[endpoint] = asyncio.get_running_loop().time()
        return True

    async def acquire(
        self, request: sandbox_pb2.AcquireSandboxRequest, endpoint: str, sandbox_id: str
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a session's sandbox at its executor; anywhere if that is away or draining.

        The answer names the endpoint if known.
        """
        if endpoint:
            try:
                return await self.acquire_at(request, endpoint, sandbox_id)
            except grpc.aio.AioRpcError as error:
                if not self.is_away(endpoint, error):
                    raise
        return await self._acquire_anywhere(request)

    async def acquire_at(
        self, request: sandbox_pb2.AcquireSandboxRequest, endpoint: str, sandbox_id: str
    ) -> sandbox_pb2.AcquireSandboxResponse:
        # A claim may take a minute; first check quickly whether the executor is there.
        look = sandbox_pb2.GetSandboxRequest(profile=request.profile, sandbox_id=sandbox_id)
        await self._reach(endpoint, look)
        answer = await self._acquire(endpoint, request)
        answer.endpoint = answer.endpoint or endpoint
        return answer

    async def take_up(
        self,
        request: sandbox_pb2.AcquireSandboxRequest,
        endpoint: str,
        sandbox_id: str,
        may: Callable[[], Awaitable[bool]],
    ) -> sandbox_pb2.AcquireSandboxResponse | None:
        """Claim a session's sandbox if it is alive and may be claimed; else None."""
        look = sandbox_pb2.GetSandboxRequest(profile=request.profile, sandbox_id=sandbox_id)
        stub = SandboxServiceStub(self.channel(endpoint))
        try:
            found = await stub.GetSandbox(look, timeout=PROBE_S)
        except grpc.aio.AioRpcError as error:
            if reason_of(error) is Reason.NOT_FOUND:
                return None
            raise
        if found.sandbox.state != sandbox_pb2.SANDBOX_STATE_READY or not await may():
            return None
        taken = await self._acquire(endpoint, request)
        taken.endpoint = taken.endpoint or endpoint
        return taken if taken.sandbox.sandbox_id == sandbox_id else None

    async def renew(self, lease: sandbox_pb2.Lease, profile: str, endpoint: str) -> None:
        stub = SandboxServiceStub(self.channel(endpoint))
        request = sandbox_pb2.RenewLeaseRequest(lease=lease, profile=profile)
        await patiently(
            lambda: stub.RenewLease(request, timeout=PROBE_S), self.patience_s(endpoint)
        )
        self._away_since.pop(endpoint, None)

    async def end(
        self,
        profile: str,
        session_id: str,
        sandbox_id: str,
        endpoint: str,
        is_left: Callable[[], Awaitable[bool]],
    ) -> None:
        """End a sandbox that its session left; fails if its executor does not answer.

        If the session has come back meanwhile, it keeps the sandbox.
        """
        # Another replica may have had its lease; taking it over invalidates that.
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"), profile=profile, session_id=session_id
        )
        taken = await self.take_up(request, endpoint, sandbox_id, is_left)
        if taken is None or not await is_left():
            return
        stub = SandboxServiceStub(self.channel(endpoint))
        release = sandbox_pb2.ReleaseSandboxRequest(lease=taken.lease, profile=profile)
        await stub.ReleaseSandbox(release, timeout=DEFAULT_UNARY_S)

    async def _reach(self, endpoint: str, look: sandbox_pb2.GetSandboxRequest) -> None:
        """Return when an executor answers at all; fail if it must be given up."""
        stub = SandboxServiceStub(self.channel(endpoint))
        try:
            await patiently(
                lambda: stub.GetSandbox(look, timeout=PROBE_S), self.patience_s(endpoint)
            )
        except grpc.aio.AioRpcError as error:
            if self.is_away(endpoint, error):
                raise
        self._away_since.pop(endpoint, None)

    async def _acquire_anywhere(
        self, request: sandbox_pb2.AcquireSandboxRequest
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a sandbox at any executor; if all are full, at the first that has a place."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + request.wait.ToMilliseconds() / 1000
        while True:
            try:
                return await patiently(lambda: self._acquire_at_next(request, ends_at))
            except grpc.aio.AioRpcError as error:
                if reason_of(error) is not Reason.POOL_EXHAUSTED or loop.time() >= ends_at:
                    raise

    async def _acquire_at_next(
        self, request: sandbox_pb2.AcquireSandboxRequest, ends_at: float
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a sandbox at an executor that has just answered.

        A claim at an unreachable one would block as long as a claim may take.
        """
        found = await self._next()
        wait_s = max(_LEAST_S, ends_at - asyncio.get_running_loop().time())
        if found.endpoint:
            # Of several executors, another may have a place sooner.
            wait_s = min(wait_s, TURN_S)
        now = sandbox_pb2.AcquireSandboxRequest()
        now.CopyFrom(request)
        now.wait.FromMilliseconds(round(wait_s * 1000))
        answer = await self._acquire(found.endpoint, now)
        answer.endpoint = answer.endpoint or found.endpoint
        return answer

    async def _next(self) -> sandbox_pb2.GetCapabilitiesResponse:
        now = asyncio.get_running_loop().time()
        if self._only is not None and now - self._only_seen_at < ONLY_S:
            return self._only
        stub = SandboxServiceStub(self.channel(""))
        look = sandbox_pb2.GetCapabilitiesRequest()
        found = await stub.GetCapabilities(look, timeout=PROBE_S)
        is_only = not (found.endpoint or found.draining)
        self._only, self._only_seen_at = found if is_only else None, now
        return found

    async def _acquire(
        self, endpoint: str, request: sandbox_pb2.AcquireSandboxRequest
    ) -> sandbox_pb2.AcquireSandboxResponse:
        stub = SandboxServiceStub(self.channel(endpoint))
        answer = await stub.AcquireSandbox(request, timeout=ACQUIRE_DEADLINE_S)
        self._away_since.pop(endpoint, None)
        return answer


LOOK_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class LeftSandboxes:
    """The sandboxes that this agent's sessions left behind."""

    def __init__(self, executors: Executors, database: Database) -> None:
        self._executors = executors
        self._database = database

    async def run(self) -> None:
        async def look() -> float:
            await self.end_all()
            return LOOK_EVERY_S

        await poll("the end of sandboxes that were left behind", look)

    async def end_all(self) -> None:
        left = await self._database.read(bindings.all_left)
        if left:
            await each_of(map(self._end, left))
            await self._database.write(bindings.forget_old_left)

    async def _end(self, left: Left) -> None:
        async def is_left() -> bool:
            return await self._database.read(lambda conn: bindings.is_left(conn, left.sandbox_id))

        try:
            await self._executors.end(
                left.profile, left.session_id, left.sandbox_id, left.endpoint, is_left
            )
        except grpc.aio.AioRpcError as error:
            if not is_passing(error):
                _log.warning("sandbox %s stays: %s", left.sandbox_id, message_of(error))
            return
        except HermesError as error:
            _log.warning("sandbox %s stays: %s", left.sandbox_id, error)
            return
        _log.info("sandbox %s, which its session had left, is ended or used again", left.sandbox_id)
        await self._database.write(lambda conn: bindings.forget_left(conn, left.sandbox_id))
