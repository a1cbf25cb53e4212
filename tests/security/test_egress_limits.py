"""What connections out of a box may use up, whoever is at their ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from executor_service.egress.policy import NetworkMode, NetworkPolicy, Rule
from tests.boxes import BUBBLEWRAP_FIRST, Yard, open_yard
from tests.world import DEADLINES, World, connect, open_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
OPEN = NetworkPolicy(NetworkMode.OPEN)


@pytest.fixture(scope="module", params=BUBBLEWRAP_FIRST)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(name: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Yard]:
    async with open_yard(name, tmp_path_factory.mktemp("boxes")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


async def test_who_says_nothing_is_hung_up_on(yard: Yard, world: World) -> None:
    rule = Rule("good.test", (world.raw_port,))
    policy = NetworkPolicy(NetworkMode.ALLOW_LIST, (rule,))
    silent = (
        "import socket, sys, time\n"
        "start = time.monotonic()\n"
        "with socket.create_connection(('127.0.0.1', 3128), 20) as proxy:\n"
        "    proxy.sendall(bytes.fromhex(sys.argv[1]))\n"
        "    while proxy.recv(65536): pass\n"
        "print(time.monotonic() - start)"
    )
    async with world.connected(yard, policy) as (console, _):
        said = [b"CONN", connect("good.test", world.raw_port)]
        recorders = [
            await console.start("/usr/bin/env", "python3", "-c", silent, part.hex())
            for part in said
        ]
        for recorder, limit_s in zip(
            recorders, (DEADLINES.request_s, DEADLINES.idle_s), strict=True
        ):
            assert (await recorder.exit(timeout_s=20)).code == 0, recorder.stderr
            assert limit_s <= float(recorder.stdout) + 0.1 < limit_s + 5


async def test_a_command_that_does_not_read_holds_up_itself_only(yard: Yard, world: World) -> None:
    unread = (
        "import socket, sys, time\n"
        "proxies = [socket.create_connection(('127.0.0.1', 3128), 20) for _ in range(20)]\n"
        "for proxy in proxies: proxy.sendall(bytes.fromhex(sys.argv[1]))\n"
        "print('asked', flush=True)\n"
        "time.sleep(60)"
    )
    host = f"good.test:{world.http_port}"
    asked = f"GET http://{host}/bytes?n=50000000 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    async with world.connected(yard, world.allow("good.test")) as (console, _):
        recorder = await console.start("/usr/bin/env", "python3", "-c", unread, asked.hex())
        await recorder.until(lambda r: bool(r.stdout))
        download = world.https("good.test", "/bytes?n=4000000")
        assert await world.fetch(console, download) == ["4000000"]
        taken = world.passed("good.test", "in")
        await asyncio.sleep(1)
        # What the kernel of the box and the windows of the streams hold, and no more.
        assert world.passed("good.test", "in") - taken < 20 * MIB
        assert world.passed("good.test", "in") < 20 * 8 * MIB
