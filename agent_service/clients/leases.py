"""The sandboxes that this replica holds for its sessions, claimed when first needed."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, Self, TypeVar
from weakref import WeakValueDictionary

import grpc.aio
from google.protobuf.duration_pb2 import Duration
from msgspec import Struct, field

from agent_service.clients.executors import Executors
from agent_service.clients.patience import patiently
from agent_service.records.background import WatchedCommand
from agent_service.records.sandbox import (
    NO_ISOLATION,
    CommandUncertain,
    CommandUnknown,
    ExecutorAway,
    Opening,
    SandboxInfo,
    SandboxUnavailable,
)
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import background, bindings
from agent_service.storage.bindings import NO_BINDING, Binding
from hermes.executor.v1 import network_pb2, sandbox_pb2
from services.database import Database
from services.database.leases import Owner
from services.errors import Reason, message_of, reason_of
from services.ids import new_id

ACQUIRE_WAIT_S = 60
MAX_HELD = 1024

GONE = frozenset({Reason.LEASE_INVALID, Reason.SANDBOX_LOST, Reason.NOT_FOUND, Reason.STALE_EPOCH})

_T = TypeVar("_T")

_LOST = "The sandbox of an earlier step is gone."
_ELSEWHERE = "The turn goes on in another replica."
_MOVED = "The sandbox is gone with the executor that had it, and with it all that ran there."
_KEPT = "This is a new one over the same /workspace."
_NOT_KEPT = "This is a new one, whose /workspace does not have the files of that one."


class Leased(Protocol):
    """A request with a lease."""

    profile: str

    @property
    def lease(self) -> sandbox_pb2.Lease: ...


class Supply(Struct, frozen=True):
    """A folder that was put into a sandbox."""

    edition: Mapping[str, object]
    path: str = ""
    listed: frozenset[bytes] | None = None
    """Its files as they were then; None if unknown."""


class HeldSandbox(Struct):
    """A claimed sandbox, and access to its executor."""

    profile: str
    place: SandboxInfo
    lease: sandbox_pb2.Lease
    binding: Binding
    channel: grpc.aio.Channel
    patience_s: float
    replaced: bool
    """The session's previous sandbox is gone."""
    bound: bool
    news: str = ""
    supplies: dict[str, Supply] = field(default_factory=dict[str, "Supply"])
    """What was put into it beside the workspace."""
    has_uploads_of: str = ""  # the last turn whose files were put into it
    supplying: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def from_answer(
        cls,
        executors: Executors,
        profile: str,
        answer: sandbox_pb2.AcquireSandboxResponse,
        workdir: str,
        before: Binding = NO_BINDING,
    ) -> Self:
        """Return a claimed sandbox for a session that had the sandbox `before`."""
        sandbox, endpoint = answer.sandbox, answer.endpoint
        binding = Binding(sandbox.sandbox_id, endpoint, sandbox.workspace_id)
        replaced = before.sandbox_id not in ("", binding.sandbox_id)
        return cls(
            profile=profile,
            place=place_of(sandbox, workdir),
            lease=answer.lease,
            binding=binding,
            channel=executors.channel(endpoint),
            patience_s=executors.patience_s(endpoint),
            replaced=replaced,
            bound=before.sandbox_id == binding.sandbox_id,
            news=_news(before, binding) if replaced else "",
        )

    async def ask(
        self, request: Leased, call: Callable[[], Awaitable[_T]], patience_s: float | None = None
    ) -> _T:
        request.lease.CopyFrom(self.lease)
        request.profile = self.profile
        return await patiently(call, self.patience_s if patience_s is None else patience_s)


class Supplies(Protocol):
    """Supplies what a session's sandbox needs before it is used."""

    async def bring(self, turn: LiveTurn, held: HeldSandbox) -> str:
        """Put in what is missing or outdated; return news for the model."""
        ...


class SandboxLeases:
    """Claims and remembers one sandbox a session."""

    def __init__(self, executors: Executors, database: Database) -> None:
        self._executors = executors
        self._database = database
        self.held: OrderedDict[str, HeldSandbox] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def hold(
        self, turn: LiveTurn, *, resumed: bool, keyed: bool = True, stays: bool = False
    ) -> HeldSandbox:
        """Return the session's sandbox; CommandUncertain if a resumed, keyed call's sandbox is
        gone.

        Only a call that is not resumed binds a new sandbox to the session: until then, a restart
        must also find that the sandbox of resumed calls is gone. A call that `stays` uses the
        session's executor, and fails if that is away.
        """
        held = self.held.get(turn.session_id)
        if held is not None and held.bound and not held.binding.endpoint:
            return held
        async with self._locks.setdefault(turn.session_id, asyncio.Lock()):
            held = await self._still_held(turn, stays) or await self._acquire(turn, stays)
            self._keep(turn.session_id, held)
            if resumed and held.replaced:
                if keyed:
                    raise CommandUncertain(_LOST)
            elif not held.bound:
                await self._database.write(lambda conn: bindings.put(conn, turn, held.binding))
                held.bound, held.replaced = True, False
        return held

    async def again(
        self, profile: str, session_id: str, sandbox_id: str, owner: Owner
    ) -> HeldSandbox:
        """Return the session's current sandbox to read its commands.

        SandboxUnavailable if another replica runs a turn of the session and so has it.
        CommandUnknown if the sandbox is gone or the session has another one.
        """
        async with self._locks.setdefault(session_id, asyncio.Lock()):
            held = self.held.get(session_id)
            if held is None:
                held = await self._take_up(profile, session_id, owner)
                self._keep(session_id, held)
        if held.binding.sandbox_id != sandbox_id:
            raise CommandUnknown(sandbox_id)
        return held

    def forget(self, session_id: str, held: HeldSandbox) -> None:
        """Claim a sandbox anew before it is used the next time."""
        if self.held.get(session_id) is held:
            del self.held[session_id]

    @property
    def lost_s(self) -> float:
        return self._executors.lost_s

    async def exists(self, turn: LiveTurn) -> bool:
        if turn.session_id in self.held:
            return True
        binding = await self._database.read(lambda conn: bindings.get(conn, turn.session_id))
        return bool(binding.sandbox_id)

    async def forget_if_gone(
        self, turn: LiveTurn, held: HeldSandbox, error: grpc.aio.AioRpcError
    ) -> bool:
        """Forget a sandbox if the error means that it or its executor is gone, and return whether.

        SandboxUnavailable if the turn may not claim another.
        """
        if not is_gone(error) and not self._executors.is_away(held.binding.endpoint, error):
            return False
        self.forget(turn.session_id, held)
        await self._check_owner(turn)
        return True

    def does_not_answer(self, endpoint: str, error: grpc.aio.AioRpcError) -> bool:
        """Return whether one of several executors is unreachable, which draining is not."""
        return self._executors.is_away(endpoint, error) and reason_of(error) is not Reason.DRAINING

    async def _check_owner(self, turn: LiveTurn) -> None:
        """Raise SandboxUnavailable unless this replica owns the turn: its new owner needs the
        sandbox."""
        if not await self._database.read(lambda conn: bindings.owns(conn, turn)):
            raise SandboxUnavailable(_ELSEWHERE)

    def _keep(self, session_id: str, held: HeldSandbox) -> None:
        self.held[session_id] = held
        self.held.move_to_end(session_id)
        if len(self.held) > MAX_HELD:
            self.held.popitem(last=False)

    async def _still_held(self, turn: LiveTurn, stays: bool) -> HeldSandbox | None:
        """Return the held sandbox if its executor still has it.

        One of several executors is checked each time: a command sent to a dead one may have run.
        """
        held = self.held.get(turn.session_id)
        if held is None or not held.binding.endpoint:
            return held
        try:
            await self._executors.renew(held.lease, turn.profile, held.binding.endpoint)
        except grpc.aio.AioRpcError as error:
            if not (stays and not is_gone(error)) and await self.forget_if_gone(turn, held, error):
                return None
            raise SandboxUnavailable(message_of(error)) from error
        return held

    async def _take_up(self, profile: str, session_id: str, owner: Owner) -> HeldSandbox:
        may = partial(self._check_idle, session_id, owner)
        bound = await self._database.read(lambda conn: bindings.get(conn, session_id))
        wish = await self._database.read(lambda conn: bindings.wish(conn, session_id))
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"), profile=profile, session_id=session_id
        )
        try:
            answer = await self._executors.take_up(request, bound.endpoint, bound.sandbox_id, may)
        except grpc.aio.AioRpcError as error:
            is_away = self.does_not_answer(bound.endpoint, error)
            raise (ExecutorAway if is_away else SandboxUnavailable)(message_of(error)) from error
        if answer is None:
            raise CommandUnknown(bound.sandbox_id)
        await self._check_idle(session_id, owner)
        return HeldSandbox.from_answer(self._executors, profile, answer, wish.workdir, bound)

    async def _check_idle(self, session_id: str, owner: Owner) -> bool:
        """Return True; SandboxUnavailable while another replica runs a turn of the session."""
        if await self._database.read(lambda conn: background.is_worked_in(conn, session_id, owner)):
            raise SandboxUnavailable(_ELSEWHERE)
        return True

    async def _acquire(self, turn: LiveTurn, stays: bool) -> HeldSandbox:
        is_ours, before, wish = await self._database.read(
            lambda conn: (
                bindings.owns(conn, turn),
                bindings.get(conn, turn.session_id),
                bindings.wish(conn, turn.session_id),
            )
        )
        if not is_ours:
            raise SandboxUnavailable(_ELSEWHERE)
        request = sandbox_pb2.AcquireSandboxRequest(
            request_id=new_id("acq"),
            profile=turn.profile,
            session_id=turn.session_id,
            template=wish.template,
            workdir=wish.workdir,
            earlier_workspace_id=before.workspace_id,
            wait=Duration(seconds=ACQUIRE_WAIT_S),
        )
        known = before.endpoint, before.sandbox_id
        try:
            if stays and before.endpoint:
                answer = await self._executors.acquire_at(request, *known)
            else:
                answer = await self._executors.acquire(request, *known)
        except grpc.aio.AioRpcError as error:
            raise SandboxUnavailable(f"No sandbox can be had: {message_of(error)}") from error
        # A claim may take a minute, in which another replica may have taken over the turn.
        await self._check_owner(turn)
        return HeldSandbox.from_answer(self._executors, turn.profile, answer, wish.workdir, before)


class TurnSandbox:
    """The sandbox of a turn's session, as one call uses it."""

    def __init__(
        self,
        leases: SandboxLeases,
        turn: LiveTurn,
        *,
        resumed: bool,
        supplies: Supplies | None = None,
    ) -> None:
        self.place = SandboxInfo()
        self.news = ""
        self.resumed = resumed
        """An earlier owner of the turn may have started the call."""
        self._leases = leases
        self._turn = turn
        self._supplies = supplies

    async def hold(
        self, *, resumed: bool | None = None, keyed: bool = True, stays: bool = False
    ) -> HeldSandbox:
        resumed = self.resumed if resumed is None else resumed
        held = await self._leases.hold(self._turn, resumed=resumed, keyed=keyed, stays=stays)
        self.place = held.place
        # Tell it once, and only of a sandbox that stays: a later call might get yet another.
        if held.bound and held.news:
            self.news, held.news = held.news, ""
        if self._supplies is not None and (told := await self._supplies.bring(self._turn, held)):
            self.news = f"{self.news} {told}".strip()
        return held

    async def exists(self) -> bool:
        return await self._leases.exists(self._turn)

    async def forget_if_gone(self, held: HeldSandbox, error: grpc.aio.AioRpcError) -> bool:
        return await self._leases.forget_if_gone(self._turn, held, error)


class WatchedSandbox:
    """The sandbox of a watched command, also between its session's turns."""

    def __init__(self, leases: SandboxLeases, watched: WatchedCommand, owner: Owner) -> None:
        self.place = SandboxInfo()
        self.resumed = True
        self._leases = leases
        self._watched = watched
        self._owner = owner
        self._away_since: float | None = None

    @property
    def is_lost(self) -> bool:
        """Return whether its executor, one of several, has been away too long."""
        if self._away_since is None:
            return False
        away_s = asyncio.get_running_loop().time() - self._away_since
        return away_s > self._leases.lost_s

    async def hold(
        self, *, resumed: bool | None = None, keyed: bool = True, stays: bool = False
    ) -> HeldSandbox:
        request, sandbox_id = self._watched.request, self._watched.sandbox_id
        profile, session_id = request.profile, request.session_id
        try:
            held = await self._leases.again(profile, session_id, sandbox_id, self._owner)
        except ExecutorAway:
            self._away_since = self._away_since or asyncio.get_running_loop().time()
            raise
        self.place, self._away_since = held.place, None
        return held

    async def exists(self) -> bool:
        return True

    async def forget_if_gone(self, held: HeldSandbox, error: grpc.aio.AioRpcError) -> bool:
        is_away = self._leases.does_not_answer(held.binding.endpoint, error)
        if not is_gone(error) and not is_away:
            return False
        self._leases.forget(self._watched.request.session_id, held)
        return True


def is_gone(error: grpc.aio.AioRpcError) -> bool:
    """Return whether an error means that the sandbox must be claimed anew."""
    return reason_of(error) in GONE


def place_of(sandbox: sandbox_pb2.Sandbox, workdir: str) -> SandboxInfo:
    """Describe a sandbox, and how untrusted data can have entered it."""
    level = sandbox_pb2.IsolationLevel.Name(sandbox.isolation)
    isolation = level.removeprefix("ISOLATION_LEVEL_").lower()
    is_closed = sandbox.network_policy.mode == network_pb2.NETWORK_MODE_NONE
    has_network = isolation == NO_ISOLATION or not is_closed
    opening = None
    if isolation == NO_ISOLATION:
        opening = Opening.MACHINE
    elif workdir:
        opening = Opening.FOLDER
    elif has_network:
        opening = Opening.NETWORK
    return SandboxInfo(sandbox.backend, isolation, sandbox.sandbox_id, opening, has_network)


def _news(before: Binding, now: Binding) -> str:
    if before.endpoint in ("", now.endpoint):
        return ""
    is_kept = before.workspace_id == now.workspace_id != ""
    return f"{_MOVED} {_KEPT if is_kept else _NOT_KEPT}"
