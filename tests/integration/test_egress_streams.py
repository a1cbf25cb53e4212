"""What a box's streams may take of the executor, seen from its end of a link."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from executor_service.metrics import EgressMetrics
from executor_service.network.gate import Deadlines
from executor_service.network.network import Networks
from executor_service.network.secrets import Secret
from executor_service.records.network_policy import NetworkMode, NetworkPolicy, Rule
from executor_service.supervisor import frames
from services.lifecycle import Workers
from services.telemetry.metrics import Meter
from tests.support.executors import until
from tests.support.world import FRIENDLY, World, connect, open_world
from tests.unit.executor.test_link import Supervisor, pair


@asynccontextmanager
async def told(world: World, port: int, *secrets: Secret) -> AsyncGenerator[Supervisor]:
    """A link to a box that may connect to a port of two machines and knows it."""
    rules = tuple(Rule(host, (port,)) for host in ("good.test", FRIENDLY))
    async with Workers() as workers, pair() as (supervisor, link, _):
        metrics = EgressMetrics.create(Meter(CollectorRegistry()))
        gate = world.gate(Deadlines(request_s=20, connect_s=20, idle_s=0.5))
        network = Networks(gate, metrics, workers, secrets).make(b"key")
        network.apply(NetworkPolicy(NetworkMode.ALLOW_LIST, rules))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(network.announce(link.streams))
            ident, _ = await supervisor.hear(frames.PROXY)
            await supervisor.say(frames.PROXY_SET, ident, {"port": 3128})
        yield supervisor


def asking(ident: int, request: bytes) -> bytes:
    said = frames.pack(frames.STREAM_BYTES, ident, frames.STREAM_HEAD.pack(0) + request)
    return frames.pack(frames.STREAM_OPENED, ident) + said


def conversations() -> list[str]:
    names = (task.get_name() for task in asyncio.all_tasks())
    return [name for name in names if name.startswith("stream ")]


@contextmanager
def full_port() -> Generator[int]:
    """One that takes no more connections, so that connecting to it lasts."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind((FRIENDLY, 0))
        full.listen(0)
        for one in (first, second):
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()[1]


async def test_what_is_asked_for_ends_with_the_stream_that_asked(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        with full_port() as port:
            async with told(world, port) as supervisor:
                await supervisor.stream.write(asking(1, connect(FRIENDLY, port)))
                await until(lambda: len(conversations()) == 1)
                await asyncio.sleep(0.1)  # it is connecting now
                await supervisor.stream.write(frames.pack(frames.STREAM_GONE, 1))
                await until(lambda: not conversations())
                assert conversations() == []


async def test_streams_that_went_still_count_until_their_conversations_end(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        with full_port() as port:
            async with told(world, port) as supervisor:
                most = 0
                for ident in range(1, 4 * frames.MAX_STREAMS):
                    # What was sent before an end is still passed on, so that it lasts.
                    ends = (frames.STREAM_ENDED, frames.STREAM_GONE)
                    over = b"".join(frames.pack(kind, ident) for kind in ends)
                    await supervisor.stream.write(asking(ident, connect(FRIENDLY, port)) + over)
                    await asyncio.sleep(0)
                    most = max(most, len(conversations()))
                assert most == frames.MAX_STREAMS


async def test_a_tunnel_for_a_secret_may_not_be_idle_before_its_hello(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        secret = Secret("TOKEN", tmp_path / "token", (Rule("good.test", (world.https_port,)),))
        async with told(world, world.https_port, secret) as supervisor:
            request = connect("good.test", world.https_port)
            await supervisor.stream.write(asking(1, request))
            await supervisor.hear(frames.STREAM_DATA)
            assert len(conversations()) == 1
            await until(lambda: not conversations())
