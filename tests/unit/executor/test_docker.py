"""The docker backend beside its engine: probe, users, gVisor and answers."""

import asyncio
import os
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from executor_service.backends.docker.engine import Engine, EngineAddress
from executor_service.backends.docker.gvisor import BridgeStream
from executor_service.backends.docker.probe import runc_warning
from executor_service.backends.docker.users import BoxUser, find_user
from executor_service.errors import BackendUnavailable, EngineRefused, LinkClosed
from tests.support.requirements import require

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


class Bridge:
    """Streams that end when they are told to."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def read(self, n: int) -> bytes:
        await self.over.wait()
        return b""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError(data)

    async def close(self) -> None:
        self.over.set()


async def test_an_end_is_told_once_the_engine_knows_of_it() -> None:
    bridge, known = Bridge(), asyncio.Event()
    stream = BridgeStream(bridge, known.wait)
    await bridge.close()
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    known.set()
    assert await reading == b""
    await stream.close()


async def test_an_end_that_the_bridge_does_not_hear_is_told() -> None:
    known = asyncio.Event()
    stream = BridgeStream(Bridge(), known.wait)
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.wait([reading], timeout=0.1)
    assert not reading.done()
    known.set()
    async with asyncio.timeout(5):
        assert await reading == b""
    await stream.close()


async def test_whoever_closes_it_waits_for_no_engine() -> None:
    stream = BridgeStream(Bridge(), asyncio.Event().wait)
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await stream.close()
        assert await reading == b""


@pytest.mark.parametrize("version", ["1.2.8", "1.2.10", "1.3.3", "1.4.0", "v1.4.1", "1.5.0+ds1"])
def test_repaired_versions_pass(version: str) -> None:
    assert runc_warning(version) == ""


@pytest.mark.parametrize(
    "version", ["1.0.0-rc93", "1.1.15", "1.2.7", "1.3.2", "1.4.0-rc.2", "1.2.0-rc.1"]
)
def test_versions_with_an_escape_are_named(version: str) -> None:
    warning = runc_warning(version)
    assert "CVE-2025-31133" in warning
    assert ("CVE-2024-21626" in warning) == version.startswith("1.0")


@pytest.mark.parametrize("version", ["", "unknown"])
def test_an_unknown_version_is_not_called_safe(version: str) -> None:
    assert "cannot be checked" in runc_warning(version)


PLAIN = {"SecurityOptions": ["name=seccomp,profile=default"]}
REMAPPED = {"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}
HERE = EngineAddress()
ELSEWHERE = EngineAddress("tcp://engine:2376", ca_file="ca.pem")


@pytest.mark.parametrize(
    ("info", "address", "executor", "user"),
    [
        (PLAIN, HERE, 0, BoxUser(1000, 1000)),
        (PLAIN, HERE, 1234, BoxUser(1234, 1234)),
        (PLAIN, ELSEWHERE, 1234, BoxUser(1000, 1000)),
        (REMAPPED, ELSEWHERE, 1234, BoxUser(1000, 1000)),
    ],
)
def test_who_commands_are(
    info: dict[str, object], address: EngineAddress, executor: int, user: BoxUser
) -> None:
    assert find_user(info, address, executor) == user


@pytest.mark.parametrize("owner", [(0, 0), (1234, 100)])
def test_commands_in_a_bound_folder_are_its_owner(tmp_path: Path, owner: tuple[int, int]) -> None:
    require("root", os.geteuid() == 0, "only root can give folders away")
    os.chown(tmp_path, *owner)
    assert BoxUser(1000, 1000).for_folder(tmp_path, is_bound=True) == BoxUser(*owner)
    assert (tmp_path.stat().st_uid, tmp_path.stat().st_gid) == owner


def test_a_workspace_is_given_to_the_user_but_not_somebody_else_s(tmp_path: Path) -> None:
    require("root", os.geteuid() == 0, "only root can give folders away")
    user = BoxUser(1000, 1000)
    assert user.for_folder(tmp_path, is_bound=False) == user
    assert tmp_path.stat().st_uid == 1000
    os.chown(tmp_path, 1234, 1234)
    assert user.for_folder(tmp_path, is_bound=False) == user
    assert tmp_path.stat().st_uid == 1234


@pytest.mark.parametrize("executor", [0, 1234])
def test_an_engine_that_remaps_users_is_refused(executor: int) -> None:
    with pytest.raises(BackendUnavailable, match=r"userns-remap.*backend: bubblewrap"):
        find_user(REMAPPED, HERE, executor)


def test_a_rootless_engine_is_its_users_alone(tmp_path: Path) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    user, address = socket.stat().st_uid, EngineAddress(f"unix://{socket}")
    rootless = {**PLAIN, "SecurityOptions": ["name=rootless"]}
    with pytest.raises(BackendUnavailable, match=f"run Hermes as user {user}"):
        find_user(rootless, address, user + 1)
    socket.unlink()
    with pytest.raises(BackendUnavailable, match="no Docker engine answers"):
        find_user(rootless, address, user)
