"""The body of a request, passed on exactly: not a byte of what would be another request."""

import asyncio
import re
from typing import Protocol

from executor_service.egress.http_head import HEAD_END, MAX_HEAD_BYTES, BadRequest

_READ_BYTES = 64 * 1024
_MAX_LINE_BYTES = 4096
_MAX_TRAILER_LINES = 100
_CHUNKS_AT_ONCE = 64
"""What is buffered is read without a pause, and others are to have their turns."""
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")


class Source(Protocol):
    """Where bytes come from."""

    async def read(self, n: int) -> bytes:
        """At least one and at most n bytes; empty at the end."""
        ...


class Sink(Protocol):
    """Where bytes go."""

    async def write(self, data: bytes) -> None:
        """Take all of data."""
        ...


class Input:
    """A source that can be read by lines and by length."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._buffer = b""

    async def read(self, n: int) -> bytes:
        """At least one and at most n bytes; empty at the end."""
        if not self._buffer:
            return await self._source.read(n)
        data, self._buffer = self._buffer[:n], self._buffer[n:]
        return data

    @property
    def buffered(self) -> bytes:
        """What has come and was not read yet."""
        return self._buffer

    async def more(self) -> None:
        """Wait until more has come, which is then in `buffered`; fails with EOFError."""
        data = await self._source.read(_READ_BYTES)
        if not data:
            raise EOFError
        self._buffer += data

    async def head(self) -> bytes:
        """Everything up to an empty line, with it; fails with BadRequest or EOFError."""
        return await self._until(HEAD_END, MAX_HEAD_BYTES)

    async def line(self) -> bytes:
        """Everything up to the end of the line, with it; fails with BadRequest or EOFError."""
        return await self._until(b"\r\n", _MAX_LINE_BYTES)

    async def _until(self, end: bytes, most: int) -> bytes:
        while (found := self._buffer.find(end)) < 0:
            if len(self._buffer) > most:
                raise BadRequest("the request's head or a line of it is too long")
            await self.more()
        found += len(end)
        data, self._buffer = self._buffer[:found], self._buffer[found:]
        return data


async def pass_body(source: Input, sink: Sink, length: int | None) -> None:
    """Pass on a body of a length, or with None in chunks; fails with BadRequest or EOFError."""
    if length is not None:
        return await _pass_bytes(source, sink, length)
    passed = 0
    while size := await _chunk_size(source):
        await _pass_chunk(source, sink, size)
        passed += 1
        if passed % _CHUNKS_AT_ONCE == 0:
            await asyncio.sleep(0)
    for _ in range(_MAX_TRAILER_LINES):
        if await source.line() == b"\r\n":
            return await sink.write(b"0\r\n\r\n")
    raise BadRequest("the body has too many trailers")


async def _chunk_size(source: Input) -> int:
    found = _SIZE.fullmatch(await source.line())
    if found is None:
        raise BadRequest("a chunk of the body is malformed")
    return int(found[1], 16)


async def _pass_chunk(source: Input, sink: Sink, size: int) -> None:
    """Pass on a chunk, in one piece if it comes in one: each write has its price."""
    start = b"%x\r\n" % size
    while size:
        data = await _read(source, size)
        size -= len(data)
        if not size and await source.line() != b"\r\n":
            raise BadRequest("a chunk of the body is longer than it says")
        await sink.write(start + data + (b"" if size else b"\r\n"))
        start = b""


async def _pass_bytes(source: Input, sink: Sink, size: int) -> None:
    while size:
        data = await _read(source, size)
        size -= len(data)
        await sink.write(data)


async def _read(source: Input, most: int) -> bytes:
    data = await source.read(min(most, _READ_BYTES))
    if not data:
        raise EOFError
    return data
