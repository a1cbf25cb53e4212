"""Passing bytes both ways."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from executor_service.egress.bodies import Input, Sink, Source, pass_body
from executor_service.egress.http_head import BadRequest
from services.task_groups import ungrouped

_READ_BYTES = 64 * 1024


class Counted:
    """A sink that tells how much goes into it."""

    def __init__(self, sink: Sink, on_bytes: Callable[[int], None]) -> None:
        self._sink = sink
        self._on_bytes = on_bytes

    async def write(self, data: bytes) -> None:
        """Take all of data."""
        await self._sink.write(data)
        self._on_bytes(len(data))


async def copy(source: Source, sink: Sink, end: Callable[[], None] | None = None) -> None:
    """Pass on everything, and that it has ended."""
    while data := await source.read(_READ_BYTES):
        await sink.write(data)
    if end is not None:
        end()


async def send_request(head: bytes, source: Input, length: int | None, sink: Sink) -> None:
    """Pass on one request; BadRequest if another follows, whose answer nobody would pass back."""
    await sink.write(head)
    await pass_body(source, sink, length)
    if await source.read(1):
        raise BadRequest("only one request is taken")


async def both(
    sending: Coroutine[Any, Any, None], receiving: Coroutine[Any, Any, None], *, wait: bool
) -> None:
    """Run both until they have ended, or without `wait` until receiving has; fail as one does."""
    with ungrouped():
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(sending)
            await receiving
            if not wait:
                sender.cancel()
