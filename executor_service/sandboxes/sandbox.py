"""A sandbox, which is a box that a session has claimed, and the check of its leases."""

import hmac
import logging
from collections.abc import Callable

from msgspec import Struct

from executor_service.errors import BackendUnavailable, SandboxLost
from executor_service.execs.command import Command
from executor_service.execs.exec_registry import ExecRegistry
from executor_service.metrics import ExecutorMetrics
from executor_service.records.sandboxes import Claim, EndReason, SandboxState
from executor_service.sandboxes.connection import ASK_AGAIN_S, SandboxConnection
from services.clock import Clock
from services.errors import LeaseInvalid, NotFound, StaleEpoch


class Sandbox:
    """A claim, its commands, and its box while that lives."""

    def __init__(
        self,
        claim: Claim,
        registry: ExecRegistry,
        connection: SandboxConnection | None,
        clock: Clock,
    ) -> None:
        self.claim = claim
        self.connection = connection
        self.registry = registry
        self._clock = clock
        self._used_at_s = clock.monotonic()
        self._awaited_until_s = 0.0

    @property
    def state(self) -> SandboxState:
        """The state of the sandbox; an awaited one counts as ready."""
        if self.claim.state is SandboxState.READY and not self.is_awaited:
            is_lost = self.connection is None or self.connection.is_lost
            return SandboxState.LOST if is_lost else SandboxState.READY
        return self.claim.state

    @property
    def running(self) -> list[Command]:
        return self.registry.running

    @property
    def expires_in_s(self) -> float:
        """Seconds until it ends if nobody uses it; a running command counts as use."""
        if self.state is not SandboxState.READY:
            return 0.0
        now_s = self._clock.monotonic()
        if self.is_awaited:
            return self._awaited_until_s - now_s
        if self.running:
            self._used_at_s = now_s
        lifetimes = self.claim.lifetimes
        idle_s = self._used_at_s + lifetimes.idle_s - now_s
        total_s = self.claim.begun_s + lifetimes.total_s - now_s
        return max(0.0, min(idle_s, total_s))

    def use(self) -> None:
        self._used_at_s = self._clock.monotonic()

    def await_box(self, most_s: float) -> None:
        """Lets the sandbox wait for news of its box, for at most this many seconds."""
        self._awaited_until_s = self._clock.monotonic() + most_s

    def find_box(self, connection: SandboxConnection) -> None:
        self.connection = connection
        self.use()
        self._awaited_until_s = 0.0

    def miss_box(self) -> None:
        is_over = self.claim.state is SandboxState.RELEASED
        self.registry.give_up(EndReason.LEASE_EXPIRED if is_over else EndReason.SANDBOX_LOST)
        self._awaited_until_s = 0.0

    @property
    def is_awaited(self) -> bool:
        """Whether the backend still has to report if the box lives."""
        return self._clock.monotonic() < self._awaited_until_s

    @property
    def is_settled(self) -> bool:
        is_unreachable = self.connection is not None and self.connection.is_unreachable
        return not (self.is_awaited or is_unreachable)

    def check_settled(self) -> None:
        """Fails with BackendUnavailable while the box is awaited.

        Not with Unavailable: callers would give the sandbox up as lost.
        """
        if self.is_awaited:
            claim = self.claim
            raise BackendUnavailable(
                f"the backend {claim.backend} of template {claim.template} does not answer yet, "
                f"so sandbox {claim.sandbox_id} cannot be reached; try again",
                retry_after_s=ASK_AGAIN_S,
            )
        if self.connection is not None:
            self.connection.check_reachable()

    def get_connection(self) -> SandboxConnection:
        """Returns its connection; fails with SandboxLost, LeaseInvalid or BackendUnavailable."""
        self.check_settled()
        if self.state is SandboxState.RELEASED:
            raise LeaseInvalid("the lease has ended; acquire a sandbox again")
        if self.connection is None or self.connection.is_lost:
            raise SandboxLost(f"the box of sandbox {self.claim.sandbox_id} is gone")
        return self.connection

    async def commands(self) -> ExecRegistry:
        """Returns its commands, once the box has reported them; fails with BackendUnavailable."""
        self.check_settled()
        if self.connection is not None:
            await self.connection.wait_settled()
        return self.registry

    async def command(self, exec_id: str) -> Command:
        """Returns a command; fails with NotFound, or with SandboxLost if its box is gone."""
        try:
            return await (await self.commands()).get(exec_id)
        except NotFound:
            if self.state is not SandboxState.LOST:
                raise
            message = f"the sandbox is gone, and nothing is known of command {exec_id}"
            raise SandboxLost(message) from None


_log = logging.getLogger(__name__)


def is_same(right: str, shown: str) -> bool:
    """Compares tokens in constant time."""
    return hmac.compare_digest(right.encode(), shown.encode())


class Proof(Struct, frozen=True):
    """What a caller presents to use a sandbox."""

    profile: str
    sandbox_id: str
    token: str
    epoch: int
    is_operator: bool = False
    """An operator needs no token and does not take the sandbox over."""


class LeaseAuthorizer:
    """Checks leases, and counts and logs refusals."""

    def __init__(self, token: Callable[[str, int], str], metrics: ExecutorMetrics) -> None:
        """`token` returns the token of a sandbox and epoch."""
        self._token = token
        self._metrics = metrics

    def check(self, sandbox: Sandbox, proof: Proof) -> None:
        """Admits a caller to a sandbox and restarts its idle time, except for an operator.

        Fails with LeaseInvalid or StaleEpoch, in that order.
        """
        claim = sandbox.claim
        if proof.is_operator:
            self._metrics.operator_uses.inc()
            about = {"audit": "operator_use", "sandbox_id": claim.sandbox_id}
            _log.info(
                "an operator uses sandbox %s of %s", claim.sandbox_id, claim.profile, extra=about
            )
            return
        if not is_same(self._token(claim.sandbox_id, proof.epoch), proof.token):
            self.record_refusal(claim, "wrong_token")
            raise LeaseInvalid("the lease token is not valid")
        if proof.epoch != claim.epoch:
            self._metrics.stale_epochs.inc()
            self.record_refusal(claim, "stale_epoch")
            raise StaleEpoch(f"sandbox {claim.sandbox_id} has a later owner")
        sandbox.use()

    def record_refusal(self, claim: Claim, why: str) -> None:
        """Counts and logs a caller that asked for another's sandbox."""
        self._metrics.lease_refusals.labels(why).inc()
        about = {"audit": "lease_refused", "sandbox_id": claim.sandbox_id, "reason": why}
        _log.warning("sandbox %s was refused: %s", claim.sandbox_id, why, extra=about)
