"""Retries of calls until the other side answers."""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.clock import Clock
from services.errors import Unavailable

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 5.0

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


async def until_answered(
    clock: Clock,
    what: str,
    call: Callable[[], Awaitable[_T]],
    longest_wait_s: float = LONGEST_WAIT_S,
) -> _T:
    """Repeat a call while it raises Unavailable, with waits that double up to `longest_wait_s`."""
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return await call()
        except Unavailable as error:
            level = logging.WARNING if wait_s == FIRST_WAIT_S else logging.DEBUG
            _log.log(level, "%s waits: %s", what, error)
        await clock.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        wait_s = min(2 * wait_s, longest_wait_s)
