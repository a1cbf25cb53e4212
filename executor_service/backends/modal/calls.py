"""Calls of Modal's SDK, which tries again for ten seconds what nobody may want any more."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

_T = TypeVar("_T")


class Calls:
    """Those that were begun and have not ended yet."""

    def __init__(self) -> None:
        self._begun: set[asyncio.Future[Any]] = set()

    async def wait_for(self, call: Awaitable[_T]) -> _T:
        """What a call gives; whoever is cancelled meanwhile leaves at once."""
        task = asyncio.ensure_future(call)
        self._begun.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        return await task

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled():
            # Whoever waited has seen it, or has left.
            task.exception()
