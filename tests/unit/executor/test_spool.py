"""Output on disk: read from any offset, bounded, and still there after a restart."""

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from executor_service.execs.segments import SpoolLimits
from executor_service.execs.spool import CommandSpool, Spool
from services.lifecycle import Workers

KIB = 1024
LIMITS = SpoolLimits(64 * KIB, first_segments=2, segments=6, total_bytes=1024 * KIB)


@asynccontextmanager
async def opened(folder: Path, limits: SpoolLimits = LIMITS) -> AsyncGenerator[Spool]:
    async with Spool(folder, limits) as spool, Workers() as workers:
        workers.start("spool", spool.run())
        yield spool


def text(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def feed(spool: CommandSpool, data: bytes, stream: int = 1, piece: int = 40_000) -> None:
    for start in range(0, len(data), piece):
        spool.append(stream, spool.end(stream), memoryview(data)[start : start + piece])


async def files(folder: Path) -> dict[str, int]:
    """The names of all files below a folder, and their sizes."""

    def look() -> dict[str, int]:
        found = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.stat().st_size for path in found}

    return await asyncio.to_thread(look)


async def everything(spool: CommandSpool, stream: int = 1, limit: int = 50_000) -> bytes:
    offset, pieces = 0, bytearray()
    while offset < spool.end(stream):
        offset, data = await spool.read(stream, offset, limit)
        pieces += data
        offset += len(data)
    return bytes(pieces)


async def test_what_came_is_read_before_and_after_it_was_written(tmp_path: Path) -> None:
    data = text(200 * KIB)
    async with Spool(tmp_path, LIMITS) as spool, Workers() as workers:
        command = spool.new("sbx", "a")
        feed(command, data)
        assert await everything(command) == data
        assert await command.read(1, 150_000, 100) == (150_000, data[150_000:150_100])
        assert not await files(tmp_path)
        workers.start("spool", spool.run())
        await command.flush()
        assert await everything(command) == data
        assert await command.read(1, 150_000, 100) == (150_000, data[150_000:150_100])
        assert await command.read(1, len(data), 100) == (len(data), b"")
        assert await command.read_all(1, 60_000, 100_000) == (60_000, data[60_000:160_000])
        assert (spool.stored_bytes, command.stored_bytes) == (len(data), len(data))
        assert not command.truncated


async def test_the_middle_of_much_output_goes(tmp_path: Path) -> None:
    data = text(1000 * KIB)
    async with opened(tmp_path) as spool:
        command = spool.new("sbx", "a")
        for start in range(0, len(data), 30 * KIB):
            feed(command, data[start : start + 30 * KIB])
            await command.flush()
        assert command.truncated
        assert command.stored_bytes <= 6 * 64 * KIB
        assert spool.stored_bytes == command.stored_bytes
        first = await command.read_all(1, 0, 256 * KIB)
        assert first == (0, data[: 128 * KIB])
        start, last = await command.read_all(1, 128 * KIB, 1000 * KIB)
        assert start > len(data) - 4 * 64 * KIB
        assert last == data[start:]
        assert sum((await files(tmp_path)).values()) == command.stored_bytes


async def test_a_new_process_goes_on_where_the_files_end(tmp_path: Path) -> None:
    data = text(300 * KIB)
    async with opened(tmp_path) as spool:
        command = spool.new("sbx", "..")
        feed(command, data[: 170 * KIB])
        await command.flush()
    async with opened(tmp_path) as spool:
        command = await spool.load("sbx", "..")
        assert command.ends == (170 * KIB, 0)
        feed(command, data[170 * KIB :])
        assert hashlib.sha256(await everything(command)).digest() == hashlib.sha256(data).digest()
        await command.flush()
        assert await everything(command) == data


async def test_a_gap_is_skipped(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        command = spool.new("sbx", "a")
        feed(command, b"before")
        await command.flush()
        command.append(1, 100, memoryview(b"after"))
        assert await command.read(1, 3, 100) == (3, b"ore")
        assert await command.read(1, 6, 100) == (100, b"after")
        await command.flush()
        assert await command.read(1, 50, 100) == (100, b"after")
        assert command.truncated


async def test_what_nobody_remembers_is_removed(tmp_path: Path) -> None:
    async with opened(tmp_path) as spool:
        for sandbox in ("sbx_a", "sbx_b", "sbx_c"):
            command = spool.new(sandbox, "x")
            feed(command, b"x")
            await command.flush()
        await spool.remove_all_but(["sbx_b"])
        assert list(await files(tmp_path)) == ["sbx_b/c-x/1-0"]
        await spool.remove_sandbox("sbx_b")
        assert not await files(tmp_path)


async def test_too_much_is_noticed_and_given_up(tmp_path: Path) -> None:
    limits = replace(LIMITS, total_bytes=300 * KIB)
    async with opened(tmp_path, limits) as spool:
        command = spool.new("sbx", "a")
        data = text(380 * KIB)
        feed(command, data)
        await command.flush()
        assert spool.over_budget.is_set()
        while spool.over_budget.is_set():
            assert command.shrink()
        assert spool.stored_bytes <= 300 * KIB
        assert (await command.read(1, 128 * KIB, 10))[0] == 256 * KIB
        while command.shrink():
            pass
        assert await command.read(1, 0, 1) == (0, data[:1])
        assert await command.read(1, len(data) - 1, 1) == (len(data) - 1, data[-1:])


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A folder that cannot be made."""
    path = tmp_path / "spool"
    path.write_text("in the way")
    return path


async def test_a_disk_that_takes_nothing_is_waited_for(blocked: Path) -> None:
    told: list[tuple[int, int]] = []
    async with opened(blocked) as spool:
        command = spool.new("sbx", "a")
        command.on_written = lambda stream, offset: told.append((stream, offset))
        feed(command, b"patience")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await command.flush()
        assert await everything(command) == b"patience"
        # Only what is in a file is told, so that the box keeps the rest.
        assert not told
        await asyncio.to_thread(blocked.unlink)
        async with asyncio.timeout(10):
            await command.flush()
        assert told == [(1, 8)]
        assert await everything(command) == b"patience"
        assert await files(blocked) == {"sbx/c-a/1-0": 8}
