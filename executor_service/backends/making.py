"""Making a box where whoever makes it cannot be stopped half way."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def made(making: Coroutine[Any, Any, _T], destroy: Callable[[_T], Awaitable[None]]) -> _T:
    """The box; if the caller is cancelled it is made to its end all the same, and destroyed."""
    box = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(box)
    except asyncio.CancelledError:
        # A thread or a machine goes on whatever becomes of us; what it makes must not be left.
        await asyncio.wait([box])
        if not box.exception():
            await destroy(box.result())
        raise
