"""A sandbox: a box that somebody has claimed, from then until it is forgotten."""

from executor_service.boxes import LiveBox
from executor_service.command import Command
from executor_service.commands import CommandTable
from executor_service.errors import SandboxLost
from executor_service.records import Claim, SandboxState
from services.clock import Clock
from services.errors import LeaseInvalid, NotFound


class Sandbox:
    """Whose it is, its commands, and its box as long as that lives."""

    def __init__(
        self, claim: Claim, commands: CommandTable, live: LiveBox | None, clock: Clock
    ) -> None:
        self.claim = claim
        self.live = live
        self._commands = commands
        self._clock = clock
        # The wall clock may be set back or forth; from here on it does not count.
        age_s = max(0.0, clock.now().timestamp() - claim.claimed_at)
        self._claimed_at_s = clock.monotonic() - age_s
        self._used_at_s = clock.monotonic()

    @property
    def state(self) -> SandboxState:
        """Where it is in its life."""
        if self.claim.state is SandboxState.READY and (self.live is None or self.live.is_lost):
            return SandboxState.LOST
        return self.claim.state

    @property
    def running(self) -> list[Command]:
        """Its commands that run now."""
        return self._commands.running

    @property
    def expires_in_s(self) -> float:
        """How long it lives if nobody uses it; a running command uses it."""
        if self.state is not SandboxState.READY:
            return 0.0
        now_s = self._clock.monotonic()
        if self.running:
            self._used_at_s = now_s
        lifetimes = self.claim.lifetimes
        idle_s = self._used_at_s + lifetimes.idle_s - now_s
        total_s = self._claimed_at_s + lifetimes.total_s - now_s
        return max(0.0, min(idle_s, total_s))

    def use(self) -> None:
        """Somebody uses it."""
        self._used_at_s = self._clock.monotonic()

    def box(self) -> LiveBox:
        """Returns the box, to do something in it; fails with SandboxLost or LeaseInvalid."""
        if self.state is SandboxState.RELEASED:
            raise LeaseInvalid("the lease is over; acquire a sandbox again")
        if self.live is None or self.live.is_lost:
            raise SandboxLost(f"the box of sandbox {self.claim.sandbox_id} is gone")
        return self.live

    async def commands(self) -> CommandTable:
        """Returns its commands, once it is known which there are."""
        if self.live is not None:
            await self.live.settled()
        return self._commands

    async def command(self, exec_id: str) -> Command:
        """Returns a command; fails with NotFound, or with SandboxLost where nobody can tell."""
        try:
            return await (await self.commands()).get(exec_id)
        except NotFound:
            if self.state is not SandboxState.LOST:
                raise
            message = f"the box is gone, and with it what was known of command {exec_id}"
            raise SandboxLost(message) from None
