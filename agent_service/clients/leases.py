"""The sandboxes that this replica holds for its sessions, claimed when first needed."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from agent_service.clients.patience import patiently
from agent_service.live_turn import LiveTurn
from agent_service.sandbox import CommandUncertain, Place, SandboxUnavailable
from agent_service.storage import bindings
from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.channels import Channels
from services.database import Database
from services.errors import Reason, message_of, reason_of
from services.ids import new_id

ACQUIRE_WAIT_S = 60
ACQUIRE_DEADLINE_S = 90
MAX_HELD = 1024

GONE = frozenset({Reason.LEASE_INVALID, Reason.SANDBOX_LOST, Reason.NOT_FOUND, Reason.STALE_EPOCH})
"""Answers after which the sandbox has to be claimed anew."""

_LOST = "The sandbox of an earlier step is gone."


@dataclass(slots=True)
class Held:
    """A sandbox that is claimed, and the way to its executor."""

    place: Place
    lease: sandbox_pb2.Lease
    endpoint: str
    channel: grpc.aio.Channel
    replaced: bool
    """The session used another sandbox before, which is gone."""
    bound: bool
    """The session's row names this sandbox."""


class SandboxLeases:
    """Claims and remembers one sandbox a session."""

    def __init__(self, channels: Channels, database: Database) -> None:
        self._channels = channels
        self._database = database
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def hold(self, turn: LiveTurn, *, resumed: bool, keyed: bool = True) -> Held:
        """The session's sandbox; CommandUncertain when that of a resumed, keyed call is gone.

        A new sandbox is bound to the session by the first call that is not resumed: until then a
        restart must find, too, that the sandbox of the resumed calls is gone.
        """
        held = self._held.get(turn.session_id)
        if held is not None and held.bound:
            return held
        async with self._locks.setdefault(turn.session_id, asyncio.Lock()):
            held = self._held.get(turn.session_id) or await self._acquire(turn)
            self._keep(turn.session_id, held)
            if resumed and held.replaced:
                if keyed:
                    raise CommandUncertain(_LOST)
            elif not held.bound:
                await self._bind(turn.session_id, held)
        return held

    async def exists(self, turn: LiveTurn) -> bool:
        """Whether the session has used a sandbox."""
        if turn.session_id in self._held:
            return True
        binding = await self._database.read(lambda conn: bindings.get(conn, turn.session_id))
        return bool(binding.sandbox_id)

    async def drop(self, turn: LiveTurn, held: Held) -> bool:
        """Forget a sandbox that is gone; True when the turn may claim another."""
        if self._held.get(turn.session_id) is held:
            del self._held[turn.session_id]
        # Only the turn's owner may claim again: a replica that woke up late must not take the
        # sandbox away from the one that goes on with the turn.
        return await self._database.read(lambda conn: bindings.owns(conn, turn))

    def _keep(self, session_id: str, held: Held) -> None:
        self._held[session_id] = held
        self._held.move_to_end(session_id)
        if len(self._held) > MAX_HELD:
            self._held.popitem(last=False)

    async def _bind(self, session_id: str, held: Held) -> None:
        await self._database.write(
            lambda conn: bindings.put(conn, session_id, held.place.sandbox_id, held.endpoint)
        )
        held.bound, held.replaced = True, False

    async def _acquire(self, turn: LiveTurn) -> Held:
        binding = await self._database.read(lambda conn: bindings.get(conn, turn.session_id))
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"),
            profile=turn.profile,
            session_id=turn.session_id,
            workdir=binding.workdir,
            wait=Duration(seconds=ACQUIRE_WAIT_S),
        )
        near = self._channels.to("executor")
        known = self._channels.at(binding.endpoint) if binding.endpoint else near
        stub = SandboxServiceStub(known)
        try:
            answer = await patiently(
                lambda: stub.AcquireSandbox(request, timeout=ACQUIRE_DEADLINE_S)
            )
        except grpc.aio.AioRpcError as error:
            raise SandboxUnavailable(f"No sandbox can be had: {message_of(error)}") from error
        endpoint = answer.endpoint or binding.endpoint
        return Held(
            place=_place(answer.sandbox),
            lease=answer.lease,
            endpoint=endpoint,
            channel=self._channels.at(endpoint) if endpoint else near,
            replaced=binding.sandbox_id not in ("", answer.sandbox.sandbox_id),
            bound=binding.sandbox_id == answer.sandbox.sandbox_id,
        )


class TurnSandbox:
    """The sandbox of a turn's session, as one call comes to it."""

    def __init__(self, leases: SandboxLeases, turn: LiveTurn, *, resumed: bool) -> None:
        self.place = Place()
        self.profile = turn.profile
        self.resumed = resumed
        """An earlier owner of the turn may have begun the call."""
        self._leases = leases
        self._turn = turn

    async def hold(self, *, resumed: bool | None = None, keyed: bool = True) -> Held:
        """The sandbox, claimed where it has to be; fails as `SandboxLeases.hold` does."""
        resumed = self.resumed if resumed is None else resumed
        held = await self._leases.hold(self._turn, resumed=resumed, keyed=keyed)
        self.place = held.place
        return held

    async def exists(self) -> bool:
        """Whether the session has used a sandbox."""
        return await self._leases.exists(self._turn)

    async def drop(self, held: Held) -> bool:
        """Forget a sandbox that is gone; True when the turn may claim another."""
        return await self._leases.drop(self._turn, held)


def is_gone(error: grpc.aio.AioRpcError) -> bool:
    """Whether an answer says that the sandbox has to be claimed anew."""
    return reason_of(error) in GONE


def _place(sandbox: sandbox_pb2.Sandbox) -> Place:
    level = sandbox_pb2.IsolationLevel.Name(sandbox.isolation)
    return Place(
        backend=sandbox.backend,
        isolation=level.removeprefix("ISOLATION_LEVEL_").lower(),
        sandbox_id=sandbox.sandbox_id,
    )
