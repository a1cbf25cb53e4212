"""Commands that share the services which one of them has started for itself."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from services.cli.connection import STUCK_S, connected, is_running
from services.cli.process import ALL
from services.config.settings import Settings, load_settings
from services.rpc.listeners import ListenFailed
from tests.support.executors import until


async def settings_of(home: Path, **environ: str) -> Settings:
    """The settings of an empty home."""
    environ["HOME"] = str(home)
    settings = await asyncio.to_thread(load_settings, {"home": str(home)}, environ)
    await asyncio.to_thread(settings.home.create)
    return settings


async def test_who_started_the_services_stops_them_last(tmp_path: Path) -> None:
    settings = await settings_of(tmp_path)
    order: list[str] = []
    guest_is_in, owner_leaves = asyncio.Event(), asyncio.Event()

    async def owner() -> None:
        async with connected(settings, ("scheduler",)):
            await guest_is_in.wait()
            owner_leaves.set()
        order.append("owner")

    async def guest() -> None:
        await until(lambda: is_running(settings))
        async with connected(settings, ("scheduler",)):
            guest_is_in.set()
            await owner_leaves.wait()
            await asyncio.sleep(0.3)
            assert await is_running(settings)
        order.append("guest")

    await asyncio.gather(owner(), guest())
    assert order == ["guest", "owner"]
    assert not await is_running(settings)


async def test_commands_that_start_at_once_share_one_process(tmp_path: Path) -> None:
    settings = await settings_of(tmp_path)
    inside = 0
    together = asyncio.Event()

    async def command() -> None:
        nonlocal inside
        async with connected(settings, ("scheduler",)):
            inside += 1
            if inside == 3:
                together.set()
            await together.wait()

    await asyncio.gather(*(command() for _ in range(3)))
    assert inside == 3
    assert not await is_running(settings)


async def test_a_command_waits_for_another_that_runs_other_services(tmp_path: Path) -> None:
    settings = await settings_of(tmp_path)
    order: list[str] = []

    async def first() -> None:
        async with connected(settings, ("scheduler",)):
            await asyncio.sleep(0.6)
            order.append("scheduler")

    async def second() -> None:
        await until(lambda: is_running(settings))
        async with connected(settings, ("agent",)):
            order.append("agent")

    async with asyncio.timeout(30):
        await asyncio.gather(first(), second())
    assert order == ["scheduler", "agent"]


HOLDER = """
import sys, time
from pathlib import Path
from services.home.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    time.sleep(float(sys.argv[3]))
    sum(range(300_000))
"""


@asynccontextmanager
async def held(settings: Settings, seconds: float, idle_s: float = 60.0) -> AsyncGenerator[int]:
    """Another process has the home's socket, without serving; its id.

    It works a little after each pause.
    """
    lock = f"{settings.home.socket}.lock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, lock, str(seconds), str(min(seconds, idle_s))), stdout=PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_a_command_waits_for_another_that_starts_slowly(tmp_path: Path) -> None:
    settings = await settings_of(tmp_path)
    async with held(settings, 1.5), connected(settings, ("scheduler",)):
        assert await is_running(settings)


async def test_a_command_waits_for_another_as_long_as_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = await settings_of(tmp_path)
    async with held(settings, STUCK_S + 2, idle_s=0.2), connected(settings, ("scheduler",)):
        assert await is_running(settings)
    (told,) = capsys.readouterr().err.splitlines()
    assert told == "hermes: another command is starting or stopping services; waiting for it"


async def test_a_command_gives_up_on_another_that_does_nothing(tmp_path: Path) -> None:
    settings = await settings_of(tmp_path)
    async with held(settings, 60) as holder:
        with pytest.raises(ListenFailed, match=f"in use by process {holder}"):
            async with connected(settings, ("scheduler",)):
                pass


async def test_a_second_home_runs_beside_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as used:
        port = used.sockets[0].getsockname()[1]
        settings = await settings_of(tmp_path, HERMES_METRICS_PORT=str(port))
        async with connected(settings, ALL):
            assert await is_running(settings)
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"hermes: port {port} is in use, so metrics are on 127.0.0.1:")
    assert told.endswith("; to choose a port, set services.metrics.port")
