"""Talking to an engine that is slow, rude or gone, over a real socket."""

import asyncio
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from executor_service.backends.docker.engine import Engine, EngineAddress
from executor_service.errors import BackendUnavailable, EngineRefused, LinkClosed

Answer = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"


@asynccontextmanager
async def engine_that(answer: Answer, folder: Path) -> AsyncGenerator[Engine, None]:
    """An engine on a socket that answers every request as told, and our client of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if length := int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]):
                await reader.readexactly(length)
            await answer(head, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    path = folder / "engine.sock"
    server = await asyncio.start_unix_server(serve, path)
    engine = Engine(EngineAddress(f"unix://{path}"))
    try:
        yield engine
    finally:
        await engine.close()
        server.close()


def saying(data: bytes) -> Answer:
    async def answer(
        _head: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def chunk(number: int, data: bytes) -> bytes:
    return struct.pack("!BxxxI", number, len(data)) + data


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 11\r\n\r\n", b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n"],
)
async def test_an_answer_ends_by_its_length_or_with_the_line(head: bytes, tmp_path: Path) -> None:
    async with engine_that(saying(head + b'{"a": [1]}\n'), tmp_path) as engine:
        assert await engine.ask("GET", "/x") == {"a": [1]}


async def test_an_error_carries_the_engines_own_words(tmp_path: Path) -> None:
    refusal = b'HTTP/1.0 409 Conflict\r\n\r\n{"message": "container is not running"}'
    async with engine_that(saying(refusal), tmp_path) as engine:
        for attempt in (engine.ask("POST", "/x", {}), engine.stream("/x", {})):
            with pytest.raises(EngineRefused, match="container is not running") as refused:
                await attempt
            assert refused.value.status == 409


async def test_an_engine_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    async def hang(
        _head: bytes, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter
    ) -> None:
        await reader.read()

    async with engine_that(hang, tmp_path) as engine:
        with pytest.raises(BackendUnavailable, match=r"no answer within 0\.05 s"):
            await engine.ask("GET", "/_ping", deadline_s=0.05)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\n", b"SSH-2.0-x\r\n\r\n"])
async def test_what_does_not_speak_http_is_no_engine(answer: bytes, tmp_path: Path) -> None:
    async with engine_that(saying(answer), tmp_path) as engine:
        with pytest.raises(BackendUnavailable):
            await engine.ask("GET", "/_ping")


async def test_nobody_there() -> None:
    engine = Engine(EngineAddress("unix:///nonexistent/engine.sock"))
    with pytest.raises(BackendUnavailable, match="unix:///nonexistent/"):
        await engine.ask("GET", "/_ping")
    with pytest.raises(BackendUnavailable, match="unix:///nonexistent/"):
        await engine.call(lambda sdk: sdk.ping())
    await engine.close()


async def test_a_stream_ends_with_the_bridges_last_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = UPGRADED + chunk(1, b"hello") + chunk(2, b"cannot import x\n")

    async def answer(
        _head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(said)
        # An engine may keep the stream of a dead box open.
        await reader.read()

    async with engine_that(answer, tmp_path) as engine:
        stream = await engine.stream("/exec/1/start", {})
        assert await stream.read(100) == b"hello"
        assert await stream.read(100) == b""
        assert "cannot import x" in caplog.text
        await stream.close()


async def test_a_stream_is_the_commands_output_whatever_the_chunks(tmp_path: Path) -> None:
    whole = UPGRADED + chunk(1, b"hello ") + chunk(1, b"")
    whole += chunk(1, b"world") + struct.pack("!BxxxI", 1, 100) + b"cut"

    async def trickle(
        _head: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for byte in whole:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with engine_that(trickle, tmp_path) as engine:
        stream = await engine.stream("/exec/1/start", {})
        received = b""
        while data := await stream.read(4):
            assert len(data) <= 4
            received += data
        assert received == b"hello worldcut"
        assert await stream.read(4) == b""
        await stream.close()


async def test_closing_wakes_a_pending_read_and_ends_writing(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def answer(
        _head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(UPGRADED)
        assert await reader.read() == b"input"
        ended.set()

    async with engine_that(answer, tmp_path) as engine:
        stream = await engine.stream("/exec/1/start", {})
        await stream.write(b"input")
        reading = asyncio.create_task(stream.read(10))
        await asyncio.sleep(0)
        await stream.close()
        await stream.close()
        assert await reading == b""
        await asyncio.wait_for(ended.wait(), 5)
        with pytest.raises(LinkClosed):
            await stream.write(b"more")
