"""Calls of what may be away: they are made again until there is an answer."""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from services.clock import Clock
from services.errors import Unavailable

_FIRST_RETRY_S = 0.1

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Persistence(Struct, frozen=True):
    """How long it is waited between two tries, of which each wait is twice the one before."""

    clock: Clock
    longest_s: float = 5.0

    async def until_answered(self, what: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Call until there is an answer, however long that takes; `what` is named in logs."""
        delay_s = _FIRST_RETRY_S
        while True:
            try:
                return await call()
            except Unavailable as error:
                level = logging.WARNING if delay_s == _FIRST_RETRY_S else logging.DEBUG
                _log.log(level, "%s waits: %s", what, error)
            await self.clock.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            delay_s = min(2 * delay_s, self.longest_s)
