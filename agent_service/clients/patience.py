"""Retries while an executor is unreachable, as during a restart, or its backend is."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc.aio

from services.errors import is_passing

LIMIT_S = 60.0
"""The time limit, unless the caller sets a shorter one."""

_T = TypeVar("_T")


class Patience:
    """The remaining time of retries."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._ends_at = 0.0
        self.renew()

    def renew(self) -> None:
        self._ends_at = asyncio.get_running_loop().time() + self._limit_s

    async def wait(self, error: grpc.aio.AioRpcError) -> bool:
        """Wait before the next attempt; False if there must be none."""
        if not is_passing(error):
            return False
        if asyncio.get_running_loop().time() > self._ends_at:
            return False
        await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - spreads tries, nothing secret
        return True


async def patiently(call: Callable[[], Awaitable[_T]], limit_s: float = LIMIT_S) -> _T:
    """Make a repeatable call until the executor can be reached."""
    patience = Patience(limit_s)
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if not await patience.wait(error):
                raise
