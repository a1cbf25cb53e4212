"""Runs the executor that is measured, and speaks with it as agents and operators do."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from hermes.executor.v1 import pool_pb2
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from services.addresses import UnixAddress
from services.auth import Identity, new_tokens
from services.channels import Channels
from tests.bench.figures import NotReady
from tests.bench.hermes import environment, stop
from tests.bench.sandboxes import Acquired, acquire, release, release_all

_READY_TIMEOUT_S = 60.0
_POLL_S = 0.02
_NOBODY = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor."""

    channels: Channels

    async def until_warm(self, count: int = 1) -> None:
        """Return once so many boxes are ready and none is being made."""
        stub = PoolServiceStub(self.channels.to("executor"))
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while True:
                answer = await stub.GetPoolStats(pool_pb2.GetPoolStatsRequest())
                if answer.pools[0].ready_count >= count and not answer.pools[0].making_count:
                    return
                await asyncio.sleep(_POLL_S)

    async def resize(self, warm: int, most: int) -> None:
        """Have so many boxes kept ready, of so many in all."""
        stub = PoolServiceStub(self.channels.to("executor"))
        await stub.ResizePool(pool_pb2.ResizePoolRequest(warm_size=warm, max_size=most))

    @asynccontextmanager
    async def sandboxes(self, count: int) -> AsyncGenerator[list[Acquired]]:
        """Have so many sandboxes, one after the other, for the time of the block."""
        async with AsyncExitStack() as stack:
            acquired: list[Acquired] = []
            for _ in range(count):
                one = await acquire(self.channels)
                stack.push_async_callback(release, self.channels, one)
                acquired.append(one)
            yield acquired


@asynccontextmanager
async def executor(folder: Path, backend: str, **variables: str) -> AsyncGenerator[Executor]:
    """Run an executor until the context is left; its sandboxes end with it."""
    await asyncio.to_thread(folder.mkdir)
    socket, tokens = folder / "x.sock", new_tokens()
    environ = environment(folder / "home", _NOBODY, HERMES_BACKEND=backend, **variables)
    environ["HERMES_KEEP_SANDBOXES"] = "false"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.executor.server", str(socket)),
        stdin=PIPE,
        stdout=PIPE,
        env=environ,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(tokens).encode() + b"\n")
        async with asyncio.timeout(_READY_TIMEOUT_S):
            line = (await process.stdout.readline()).decode().strip()
        if line != "ready":
            raise NotReady(line or f"an executor with {backend} did not start")
        token = tokens[Identity.OPERATOR]
        addresses = {"executor": UnixAddress(socket)}
        async with Channels(Identity.OPERATOR, addresses, token=token) as channels:
            try:
                yield Executor(channels)
            finally:
                # Where it has failed, what failed is of interest.
                with suppress(grpc.aio.AioRpcError):
                    await release_all(channels)
    finally:
        await stop(process, "the executor")
