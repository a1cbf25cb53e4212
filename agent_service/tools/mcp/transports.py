"""How the MCP SDK reaches servers: a program's standard streams, or vetted HTTP.

Imports the SDK, so it is imported late.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, cast

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import McpHttpClientFactory
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

MAX_MESSAGE_BYTES = 10 * 1024 * 1024
"""A longer message ends the connection."""
WINDOW_S = 10.0
MAX_WINDOW_BYTES = 64 * 1024 * 1024
MAX_WINDOW_MESSAGES = 5_000
"""A server that sends more than this in a window is ended: it would take the agent's time."""
_LARGE_BYTES = 256 * 1024
"""Larger messages are parsed in a thread."""

Transport = AbstractAsyncContextManager[tuple[Any, Any]]


class RunningProgram(Protocol):
    """The program behind a connection."""

    ending: str

    @property
    def error_text(self) -> str: ...

    async def write(self, data: bytes) -> None: ...

    def output(self) -> AsyncIterator[bytes]: ...


class TooMuch(Exception):
    """The server sends more than is read; the message says what."""


class _Lines:
    """Splits output into lines, and limits their length and number."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._since = time.monotonic()
        self._bytes = self._messages = 0

    def add(self, data: bytes) -> list[bytes]:
        """The lines that are complete now; TooMuch if there is too much of them."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_MESSAGE_BYTES:
            raise TooMuch(f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
        self._count(len(data), len(lines))
        return [line for line in lines if line.strip()]

    def _count(self, data: int, messages: int) -> None:
        now = time.monotonic()
        if now - self._since > WINDOW_S:
            self._since, self._bytes, self._messages = now, 0, 0
        self._bytes += data
        self._messages += messages
        if self._bytes > MAX_WINDOW_BYTES or self._messages > MAX_WINDOW_MESSAGES:
            raise TooMuch("it floods Hermes with messages")


@asynccontextmanager
async def program_transport(
    program: RunningProgram, ended: Callable[[str], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """Messages as lines of a program's standard streams; `ended` is told how it ended."""
    to_session, from_program = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_program, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        lines, why = _Lines(), ""
        try:
            async for data in program.output():
                for line in lines.add(data):
                    if (message := await _parsed(line)) is not None:
                        await to_session.send(message)
        except TooMuch as error:
            why = str(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            why = "the session is over"
        ended(why or program.ending)
        to_session.close()

    async def write() -> None:
        async for sent in from_session:
            line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            await program.write(line.encode() + b"\n")

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield from_program, to_program
        finally:
            group.cancel_scope.cancel()
            for stream in (to_session, from_program, to_program, from_session):
                stream.close()


async def _parsed(line: bytes) -> SessionMessage | None:
    """A message; None for output that is none, which careless servers print."""
    try:
        if len(line) > _LARGE_BYTES:
            message = await asyncio.to_thread(jsonrpc_message_adapter.validate_json, line)
        else:
            message = jsonrpc_message_adapter.validate_json(line)
    except ValidationError:
        return None
    return SessionMessage(message)


class _Bounded:
    """A transport that limits the size of answers, and takes none that are compressed."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def __aenter__(self) -> "_Bounded":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        answer = await self._inner.handle_async_request(request)
        if answer.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise httpx2.DecodingError("the answer is compressed, which was not requested")
        media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        stream = cast("httpx2.AsyncByteStream", answer.stream)
        answer.stream = _BoundedStream(stream, is_endless=media_type == "text/event-stream")
        return answer


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, *, is_endless: bool) -> None:
        """An endless stream is limited by line and by time, any other as a whole."""
        self._inner = inner
        self._is_endless = is_endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total, lines = 0, _Lines()
        async for chunk in self._inner:
            total += 0 if self._is_endless else len(chunk)
            try:
                lines.add(chunk)
            except TooMuch as error:
                raise httpx2.ReadError(str(error)) from error
            if total > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(f"the answer has more than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def http_client(
    wire: httpx2.AsyncBaseTransport,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    timeout_s: float,
) -> httpx2.AsyncClient:
    """A client over a vetted transport."""
    return httpx2.AsyncClient(
        transport=cast("httpx2.AsyncBaseTransport", _Bounded(wire)),
        headers=dict(headers),
        auth=auth,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(30.0, read=timeout_s),
    )


@asynccontextmanager
async def http_transport(
    url: str, client: httpx2.AsyncClient, *, is_sse: bool
) -> AsyncGenerator[tuple[Any, Any]]:
    """Streamable HTTP, or the older transport with server-sent events."""

    def given(**_: Any) -> httpx2.AsyncClient:
        return client

    if is_sse:
        opened = sse_client(url, httpx_client_factory=cast("McpHttpClientFactory", given))
        async with cast("Transport", opened) as streams:
            yield streams
        return
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams
