"""Waiting for an executor that cannot be reached, as while it restarts, or for its backend."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc.aio

from services.errors import is_passing

LIMIT_S = 60.0
"""How long it is waited for, unless the caller names less."""

_T = TypeVar("_T")


class Patience:
    """How much longer to wait."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._ends_at = 0.0
        self.renew()

    def renew(self) -> None:
        """The executor has answered."""
        self._ends_at = asyncio.get_running_loop().time() + self._limit_s

    async def wait(self, error: grpc.aio.AioRpcError) -> bool:
        """Wait a moment before the next try; False when there should be none."""
        if not is_passing(error):
            return False
        if asyncio.get_running_loop().time() > self._ends_at:
            return False
        await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - spreads tries, nothing secret
        return True


async def patiently(call: Callable[[], Awaitable[_T]], limit_s: float = LIMIT_S) -> _T:
    """Do what may be done twice, again and again until the executor can be reached."""
    patience = Patience(limit_s)
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if not await patience.wait(error):
                raise
