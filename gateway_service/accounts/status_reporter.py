"""Stores how an account is connected, so that every replica can tell."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage import statuses
from gateway_service.storage.accounts import AccountLease
from gateway_service.storage.statuses import ConnectionStatus
from services.clock import Clock
from services.database.queue import poll

LOOK_S = 1.0


class StatusReporter:
    """Stores the status of an account whenever it changes."""

    def __init__(
        self,
        account: AccountLease,
        status: Callable[[], ConnectionStatus],
        limiter: Limiter,
        clock: Clock,
    ) -> None:
        """`status` returns how the account is connected, without rate limits."""
        self._account, self._status = account, status
        self._limiter, self._clock = limiter, clock
        self._stored: ConnectionStatus | None = None

    async def run(self) -> None:
        await poll("the status of an account", self._look, retry_s=LOOK_S)

    async def _look(self) -> float:
        now, status = self._clock.now().replace(microsecond=0), self._status()
        if (penalty_s := self._limiter.penalty_s) > 0:
            status = replace(status, rate_limited_until=now + timedelta(seconds=round(penalty_s)))
        if status != self._stored:
            account_id = self._account.id
            await self._account.write(
                partial(statuses.report, account_id=account_id, status=status)
            )
            self._stored = status
        return LOOK_S
