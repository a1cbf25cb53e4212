"""The executors as the agent reaches them: the one that has a session's sandbox, else any.

There may be one, or several behind one address, of which each names the endpoint at which it alone
is reached. One that cannot be reached for a few seconds loses the sessions whose sandboxes it has.
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
from services.errors import (
    DatabaseUnavailable,
    HermesError,
    Reason,
    is_passing,
    message_of,
    reason_of,
)
from services.ids import new_id
from services.lifecycle import each_of
from services.rpc.channels import Channels
from services.rpc.deadlines import DEFAULT_UNARY_S

ACQUIRE_DEADLINE_S = 90
PROBE_S = 1.5
"""How long an executor may take to say that it is there."""
REMEMBERED_S = 30.0
"""How long one that was away is asked only once, and not waited for again."""
LOST_TIMES = 12
"""How many times as long one may be away for whoever can wait as for whoever has work for it."""
JUST_S = 3.0
"""How long one that was away is not asked again at all."""
MAX_PASSED = 8
"""How many that take nothing new are passed over before one of them says so."""
TURN_S = 1.0
"""How long a claim waits for a place at one of several executors before it asks the next."""
_LEAST_S = 0.05
"""How long a claim waits for a place in any case; nothing would stand for the usual time."""

AWAY = frozenset({Reason.SERVICE_UNAVAILABLE, Reason.DRAINING})
"""Answers of an executor in whose place another can be asked."""


class Executors:
    """The executors of a deployment."""

    def __init__(self, channels: Channels, away_s: float) -> None:
        self._channels = channels
        self._away_s = away_s
        self._away_since: dict[str, float] = {}

    def channel(self, endpoint: str) -> grpc.aio.Channel:
        """The way to the executor at an endpoint; to any of them when it is empty."""
        return self._channels.at(endpoint) if endpoint else self._channels.to("executor")

    def patience_s(self, endpoint: str) -> float:
        """How long an executor is waited for: one that has a successor not as long as the only."""
        if not endpoint:
            return LIMIT_S
        since = self._away_since.get(endpoint)
        is_new = since is None or asyncio.get_running_loop().time() - since > REMEMBERED_S
        return self._away_s if is_new else 0.0

    @property
    def lost_s(self) -> float:
        """After how long one of several that does not answer counts as gone for good."""
        return LOST_TIMES * self._away_s

    def is_away(self, endpoint: str, error: grpc.aio.AioRpcError) -> bool:
        """Whether a call's error, after all patience, means that another has to take over."""
        if not endpoint or (reason := reason_of(error)) not in AWAY:
            return False
        if reason is Reason.SERVICE_UNAVAILABLE:
            self._away_since[endpoint] = asyncio.get_running_loop().time()
        return True

    async def acquire(
        self, request: sandbox_pb2.AcquireSandboxRequest, endpoint: str, sandbox_id: str
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a sandbox where the session has one; anywhere when that executor is away or drains.

        The answer names the endpoint where that is known.
        """
        if endpoint and not self._was_just_missed(endpoint):
            try:
                return await self.acquire_at(request, endpoint, sandbox_id)
            except grpc.aio.AioRpcError as error:
                if not self.is_away(endpoint, error):
                    raise
        return await self._acquire_anywhere(request)

    async def acquire_at(
        self, request: sandbox_pb2.AcquireSandboxRequest, endpoint: str, sandbox_id: str
    ) -> sandbox_pb2.AcquireSandboxResponse:
        """Claim a sandbox where the session has one, and nowhere else."""
        # To claim may take a minute; whether anybody is there is known sooner.
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
        """Claim a sandbox that a session has, if it lives and it still may be; else None."""
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
        """Prolong a lease, by which one learns as well whether it holds."""
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
        """End a sandbox that its session has left, if it lives; fails when nobody answers.

        A session that has come back meanwhile keeps its sandbox.
        """
        # Another replica may have had its lease: whoever takes it over has the only one.
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"), profile=profile, session_id=session_id
        )
        taken = await self.take_up(request, endpoint, sandbox_id, is_left)
        if taken is None or not await is_left():
            return
        stub = SandboxServiceStub(self.channel(endpoint))
        release = sandbox_pb2.ReleaseSandboxRequest(lease=taken.lease, profile=profile)
        await stub.ReleaseSandbox(release, timeout=DEFAULT_UNARY_S)

    def _was_just_missed(self, endpoint: str) -> bool:
        since = self._away_since.get(endpoint, float("-inf"))
        return asyncio.get_running_loop().time() - since < JUST_S

    async def _reach(self, endpoint: str, look: sandbox_pb2.GetSandboxRequest) -> None:
        """Return when an executor answers, whatever it says; fail when it has to be given up."""
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
        """Claim a sandbox at any executor; where all are full, at the first that has a place."""
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

        One to which the way is lost would not be noticed for as long as a claim may take.
        """
        found = await self._next()
        for _ in range(MAX_PASSED):
            if not found.draining:
                break
            found = await self._next()
        wait_s = max(_LEAST_S, ends_at - asyncio.get_running_loop().time())
        if found.endpoint:
            # The only one is waited at; of several, another may have a place sooner.
            wait_s = min(wait_s, TURN_S)
        now = sandbox_pb2.AcquireSandboxRequest()
        now.CopyFrom(request)
        now.wait.FromMilliseconds(round(wait_s * 1000))
        answer = await self._acquire(found.endpoint, now)
        answer.endpoint = answer.endpoint or found.endpoint
        return answer

    async def _next(self) -> sandbox_pb2.GetCapabilitiesResponse:
        """What an executor says of itself; each call goes to the next of them."""
        stub = SandboxServiceStub(self.channel(""))
        look = sandbox_pb2.GetCapabilitiesRequest()
        return await stub.GetCapabilities(look, timeout=PROBE_S)

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
    """The sandboxes that this agent's sessions have left behind."""

    def __init__(self, executors: Executors, database: Database) -> None:
        self._executors = executors
        self._database = database

    async def run(self) -> None:
        """End what can be ended, again and again until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.end_all()
            except DatabaseUnavailable as error:
                _log.warning("sandboxes that were left behind cannot be looked for: %s", error)

    async def end_all(self) -> None:
        """End those whose executor can be reached now."""
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
