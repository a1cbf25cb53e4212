"""A living box, and the link to its supervisor, which reconnects as long as the box exists."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from executor_service.backends.base import Backend, Box, HasControlPlane
from executor_service.errors import (
    BackendError,
    BackendUnavailable,
    BoxLost,
    BoxOutOfMemory,
    BoxOutOfSpace,
    BoxPoisoned,
    ExecutorError,
    LinkClosed,
    LinkRefused,
    NetworkUnusable,
    ProxyRefused,
    SandboxLost,
    StartRefused,
)
from executor_service.execs.command import Command
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.link.link import Hello, SupervisorLink, open_link
from executor_service.link.messages import StartCommand
from executor_service.network.network import Networks, SandboxNetwork
from executor_service.records.network_policy import NetworkPolicy
from executor_service.records.sandboxes import EndReason
from services.errors import DatabaseUnavailable, InvalidArgument
from services.lifecycle import Workers

_END_REASONS: Mapping[type[Exception], EndReason] = {
    BoxOutOfMemory: EndReason.OOM,
    BoxOutOfSpace: EndReason.DISK_QUOTA,
}
"""Why commands ended, by the error that ended the whole box."""
_GIVE_UP_AFTER_S = 3.5
"""How long to retry a silent box; with the last pause, callers wait at most 5 seconds."""
_LAST_TRY_S = 0.5
"""How long the last attempt to reach it may take."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_PING_INTERVAL_S = 20.0
_PING_TIMEOUT_S = 10.0
ASK_AGAIN_S = 1.0
"""When callers should try again while the backend does not answer."""

_log = logging.getLogger(__name__)


class SandboxConnection:
    """One box and its commands, with a link that reconnects when it breaks."""

    def __init__(
        self,
        box: Box,
        secret: str,
        backend: Backend,
        commands: ExecRegistry,
        workers: Workers,
        orphan_timeout_s: float,
    ) -> None:
        """`secret` proves to the box's supervisor that this is its executor."""
        self.box = box
        self.commands = commands
        self.epoch = 0
        """The sandbox's lease epoch; a box refuses an executor with an earlier one."""
        self.is_lost = False
        self.is_unreachable = False
        """Whether its backend has not answered for seconds; nothing says that the box is gone."""
        self.gone = asyncio.Event()
        self._secret = secret
        self._backend = backend
        self._outlives_outages = (
            isinstance(backend, HasControlPlane) and backend.boxes_outlive_outages
        )
        self._workers = workers
        self._orphan_timeout_s = orphan_timeout_s
        self._network: SandboxNetwork | None = None
        self._link: SupervisorLink | None = None
        self._settled = asyncio.Event()
        self._retired = asyncio.Event()
        self._end_reason = EndReason.SANDBOX_LOST

    async def run(self) -> None:
        """Keeps the link until the box is lost or retired."""
        silent_since: float | None = None
        away_since: float | None = None
        pause_s, complaint = _FIRST_PAUSE_S, ""
        loop = asyncio.get_running_loop()
        while True:
            was_linked, error = await self._hold_link(silent_since)
            if self._retired.is_set():
                break
            if was_linked:
                silent_since, away_since, pause_s = loop.time(), None, _FIRST_PAUSE_S
            if was_linked or str(error) != complaint:
                _log.warning("box %s: %s", self.box.key, error)
            complaint = str(error)
            self._end_reason = _END_REASONS.get(type(error), self._end_reason)
            if isinstance(error, BoxLost | BoxPoisoned | LinkRefused):
                break
            if isinstance(error, BackendUnavailable) and self._outlives_outages:
                away_since = away_since or silent_since or loop.time()
                silent_since = None
                if loop.time() - away_since > self._orphan_timeout_s:
                    break
                self._notice_outage(loop.time() - away_since)
            elif isinstance(error, DatabaseUnavailable):
                silent_since = None
            else:
                silent_since = silent_since or loop.time()
                if loop.time() - silent_since > _GIVE_UP_AFTER_S:
                    break
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self.is_lost = True
        self.commands.give_up(self._end_reason)
        self._settled.set()

    def _notice_outage(self, lasted_s: float) -> None:
        """Lets callers that wait fail with BackendUnavailable, after a few seconds."""
        if lasted_s > _GIVE_UP_AFTER_S:
            self.is_unreachable = True
            self._settled.set()

    def check_reachable(self) -> None:
        """Fails with BackendUnavailable while the backend does not answer.

        Not with Unavailable: callers would give the sandbox up as lost.
        """
        if self.is_unreachable and not self.is_ending:
            raise BackendUnavailable(
                f"the backend {self.box.backend} does not answer, so sandbox {self.box.key} cannot "
                "be reached; try again",
                retry_after_s=ASK_AGAIN_S,
            )

    async def link(self) -> SupervisorLink:
        """Returns the link once it is up; fails with SandboxLost or BackendUnavailable."""
        while True:
            await self._settled.wait()
            if self.is_lost or self._retired.is_set():
                raise SandboxLost(f"the box of sandbox {self.box.key} is gone")
            if self._link is not None and self._link.error is None:
                return self._link
            self.check_reachable()
            # It has just ended, and `run` notices in a moment.
            await asyncio.sleep(0)

    async def wait_settled(self) -> None:
        """Returns when the box has reported its commands, is lost, or cannot be reached."""
        await self._settled.wait()

    @property
    def is_ending(self) -> bool:
        """Whether it is lost or retired; it may not be gone yet."""
        return self.is_lost or self._retired.is_set()

    def retire(self, reason: EndReason) -> None:
        """Ends it, and its running commands with this reason; `run` returns."""
        self._end_reason = reason
        self._retired.set()

    def set_policy(self, policy: NetworkPolicy, networks: Networks) -> None:
        """Sets the network policy; it takes effect when the box is told."""
        # Most sandboxes never get a network.
        if self._network is None and not policy.is_initial:
            self._network = networks.make(self._secret.encode())
        if self._network is not None:
            self._network.apply(policy)

    async def apply_policy(self, policy: NetworkPolicy, networks: Networks) -> None:
        """Sets the policy and tells the box; fails with NetworkUnusable or SandboxLost."""
        self.set_policy(policy, networks)
        while self._network is not None:
            link = await self.link()
            try:
                await self._network.announce(link.streams)
                break
            except ProxyRefused as error:
                raise NetworkUnusable(f"the sandbox cannot have a network: {error}") from error
            except (LinkClosed, BoxPoisoned):
                # The next link is told as it comes up.
                continue

    def placeholders(self, names: Collection[str]) -> dict[str, str]:
        """Returns placeholders of these secrets, or of all; fails with InvalidArgument."""
        secrets = None if self._network is None else self._network.secrets
        known = () if secrets is None else secrets.names
        for name in names:
            if name not in known:
                raise InvalidArgument(
                    f"this sandbox has no secret {name!r}: it needs a network and a template "
                    "whose network_secrets list it",
                    fields={"secret_refs": "names of secrets that the sandbox has"},
                )
        if secrets is None:
            return {}
        return {name: secrets.placeholder(name) for name in names or known}

    async def _announce_network(self, link: SupervisorLink) -> None:
        if self._network is not None:
            try:
                await self._network.announce(link.streams)
            except ProxyRefused as error:
                _log.warning("box %s has no network: %s", self.box.key, error)

    async def start(self, request: StartCommand) -> Command:
        """Starts a command, or returns it if its id is known already.

        Fails with StartRefused, AlreadyExists or SandboxLost.
        """
        command, is_new = await self.commands.begin(request.exec_id, request.to_wire()["digest"])
        if is_new:
            # In a task of its own: a caller that leaves must not leave it half started.
            name = f"start {self.box.key} {request.exec_id}"
            self._workers.start(name, self._start(command, request))
        await command.wait_started()
        return command

    async def _start(self, command: Command, request: StartCommand) -> None:
        try:
            while not command.bound:
                try:
                    await (await self.link()).start(request, command.bind)
                except (LinkClosed, BoxPoisoned):
                    pass  # the next link tells whether it was started
                except BackendUnavailable:
                    await asyncio.sleep(ASK_AGAIN_S)
        except (StartRefused, SandboxLost) as why:
            self.commands.refuse(command, why)
        else:
            self.commands.record_start(command)

    async def _hold_link(
        self, silent_since: float | None
    ) -> tuple[bool, ExecutorError | DatabaseUnavailable]:
        """Keeps one link until it ends; returns whether it was up, and how it ended."""
        linked = False
        try:
            acked = await self.commands.prepare()
            async with asyncio.timeout_at(_last_moment(silent_since)):
                stream = await self._backend.connect(self.box)
            box = self.box
            hello = Hello(box.key, self._secret, self.epoch, acked, self._orphan_timeout_s)
            async with open_link(stream, hello, self.commands.adopt) as link:
                self.commands.on_linked(link.commands)
                linked = True
                await self._announce_network(link)
                self._link = link
                self.is_unreachable = False
                self._settled.set()
                try:
                    return linked, await self._until_ended(link)
                finally:
                    self._link = None
                    self._settled.clear()
        except TimeoutError:
            kind = BackendUnavailable if self._outlives_outages else LinkClosed
            return linked, kind("the box cannot be reached in time")
        except (BackendError, LinkClosed, BoxPoisoned, DatabaseUnavailable) as error:
            return linked, error

    async def _until_ended(self, link: SupervisorLink) -> ExecutorError:
        retired = asyncio.ensure_future(self._retired.wait())
        ended = asyncio.ensure_future(link.wait_ended())
        try:
            while not (ended.done() or retired.done()):
                await asyncio.wait(
                    (ended, retired), timeout=_PING_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not (ended.done() or retired.done()):
                    await link.ping(_PING_TIMEOUT_S)
        except TimeoutError:
            return LinkClosed("the box does not answer pings")
        finally:
            retired.cancel()
            ended.cancel()
            await asyncio.wait((ended, retired))
        return link.error or LinkClosed("the box was retired")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._retired.wait()
        except TimeoutError:
            pass


def _last_moment(silent_since: float | None) -> float | None:
    """The deadline of an attempt to reach a silent box; otherwise the backend decides."""
    if silent_since is None:
        return None
    soonest = asyncio.get_running_loop().time() + _LAST_TRY_S
    return max(soonest, silent_since + _GIVE_UP_AFTER_S)
