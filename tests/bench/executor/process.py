"""Runs the executor that is measured, and speaks with it as agents and operators do."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from hermes.executor.v1 import pool_pb2
from hermes.executor.v1.pool_pb2_grpc import PoolServiceStub
from services.rpc.auth import Identity
from services.rpc.certs import files_of
from services.rpc.channels import Channels
from tests.bench.figures import Missing, NotReady
from tests.bench.hermes import home_at, serving
from tests.bench.sandboxes import Acquired, acquire, release, release_all
from tests.e2e.deployment import LEAVE_NOTHING, Server, make_certificates, tls_of
from tests.support.ports import free_port

_WARM_TIMEOUT_S = 60.0
_POLL_S = 0.02
_NOBODY = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class Executor:
    """A running executor."""

    channels: Channels

    async def until_warm(self, count: int = 1) -> None:
        """Return once so many boxes are ready and none is being made."""
        stub = PoolServiceStub(self.channels.to("executor"))
        async with asyncio.timeout(_WARM_TIMEOUT_S):
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
    """Run an executor until the context is left; its sandboxes end with it.

    Fails with Missing where this machine has no such backend.
    """
    server, channels = await asyncio.to_thread(_made, folder, backend, variables)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serving(server))
        except NotReady as error:
            raise Missing(str(error)) from None
        await stack.enter_async_context(channels)
        try:
            yield Executor(channels)
        finally:
            # Where it has failed, what failed is of interest.
            with suppress(grpc.aio.AioRpcError):
                await release_all(channels)


def _made(folder: Path, backend: str, variables: dict[str, str]) -> tuple[Server, Channels]:
    folder.mkdir()
    certs, address = make_certificates(folder, ("executor",)), f"127.0.0.1:{free_port()}"
    where = {"HERMES_LISTEN": address, "HERMES_EXECUTOR_ENDPOINT": address}
    settings = {"HERMES_BACKEND": backend, "HERMES_METRICS_PORT": "0", **LEAVE_NOTHING}
    own = {**settings, **where, **tls_of(certs, "executor"), **variables}
    home = home_at(folder / "home", _NOBODY, **own)
    files = files_of(certs, Identity.OPERATOR)
    channels = Channels(Identity.OPERATOR, {"executor": address}, tls=files)
    return Server("executor", home, "serve", "executor"), channels
