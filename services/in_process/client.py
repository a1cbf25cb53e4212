"""The client's end of a call, with those methods of a call of `grpc.aio` that have a use here."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import aclosing
from typing import Any, Self

import grpc
import grpc.aio

from services.in_process.exchange import CANCELLED, EMPTY, EOF, Codec, Exchange


class ClientCall:
    """A call of any of the four kinds: awaited, iterated over, written to, as its kind has it."""

    def __init__(self, exchange: Exchange, encode: Codec, decode: Codec) -> None:
        self._exchange = exchange
        self._encode = encode
        self._decode = decode
        self._writing_ended = False

    # ---- what it answers

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer().__await__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message = await self.read()
        if message is EOF:
            raise StopAsyncIteration
        return message

    async def read(self) -> Any:
        """Return the next message, or `grpc.aio.EOF` after the last one of a call that is OK."""
        message = await self._next()
        if message is None:
            await self._check()
            return EOF
        return self._decode(message)

    async def _answer(self) -> Any:
        message = await self._next()
        await self._check()
        if message is None:
            raise EMPTY.as_error()
        return self._decode(message)

    async def _next(self) -> bytes | None:
        try:
            return await self._exchange.responses.get()
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _check(self) -> None:
        status = await self._exchange.ended()
        if status is CANCELLED:
            raise asyncio.CancelledError
        if status.code is not grpc.StatusCode.OK:
            raise status.as_error()

    # ---- what it asks

    async def write(self, message: Any) -> None:
        """Send one more request."""
        if self.done():
            await self._check()
        if self.done() or self._writing_ended:
            raise asyncio.InvalidStateError("the call takes no more requests")
        if not await self._exchange.send(self._exchange.requests, self._encode(message)):
            await self._check()

    async def feed(self, requests: AsyncIterable[Any] | Iterable[Any]) -> None:
        """Send all that an iterator has; the call is cancelled when the iterator fails."""
        try:
            async with aclosing(_each(requests)) as messages:
                async for message in messages:
                    data = self._encode(message)
                    if not await self._exchange.send(self._exchange.requests, data):
                        return
        except BaseException:
            self.cancel()
            raise
        await self.done_writing()

    async def done_writing(self) -> None:
        """Say that there will be no more requests."""
        self._writing_ended = True
        self._exchange.requests.end()

    # ---- how it stands

    def cancel(self) -> bool:
        """End it; False when it has ended before."""
        return self._exchange.cut(CANCELLED)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._exchange.status is not None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have a function called when it has ended; at once if it has."""
        if self.done():
            callback(self)
        else:
            self._exchange.on_end.append(lambda: callback(self))

    async def code(self) -> grpc.StatusCode:
        """Return its status, once it has one."""
        return (await self._exchange.ended()).code

    async def details(self) -> str:
        """Return what its status says, once it has one."""
        return (await self._exchange.ended()).details

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        """Return what came with its status, once it has one."""
        return grpc.aio.Metadata(*(await self._exchange.ended()).trailing)


async def _each(requests: AsyncIterable[Any] | Iterable[Any]) -> AsyncGenerator[Any]:
    if isinstance(requests, AsyncIterable):
        async for request in requests:
            yield request
    else:
        for request in requests:
            yield request
