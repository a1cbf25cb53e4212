"""Sandboxes as the executor's callers have them: acquired, used for a command, released."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, cast

from hermes.executor.v1 import exec_pb2, sandbox_pb2
from hermes.executor.v1.exec_pb2_grpc import ExecServiceStub
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.ids import new_id
from services.rpc.channels import Channels
from services.rpc.streams import open_stream
from tests.bench.figures import BenchError

if TYPE_CHECKING:
    import grpc.aio

    Call = grpc.aio.StreamStreamCall[exec_pb2.AttachExecRequest, exec_pb2.AttachExecResponse]

PROGRAM = "true"

_CLEARING_UP_S = 0.5
"""An engine goes on for so long after a command or a container has ended."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """A sandbox, and how it was come by."""

    lease: sandbox_pb2.Lease
    backend: str
    launch: "sandbox_pb2.LaunchKind.ValueType"
    took_ms: float


async def acquire(channels: Channels, session_id: str = "") -> Acquired:
    """Acquire the sandbox of a session, by default of a new one."""
    stub = SandboxServiceStub(channels.to("executor"))
    request = sandbox_pb2.AcquireSandboxRequest(
        request_id=new_id("req"), session_id=session_id or new_id("ses")
    )
    begun = perf_counter()
    answer = await stub.AcquireSandbox(request)
    took_ms = (perf_counter() - begun) * 1_000
    return Acquired(answer.lease, answer.sandbox.backend, answer.launch, took_ms)


async def release(channels: Channels, acquired: Acquired) -> None:
    """End a sandbox."""
    stub = SandboxServiceStub(channels.to("executor"))
    await stub.ReleaseSandbox(sandbox_pb2.ReleaseSandboxRequest(lease=acquired.lease))


async def engine_at_rest() -> None:
    """Return when what the engine was asked for before does not disturb what is measured next."""
    await asyncio.sleep(_CLEARING_UP_S)


async def release_all(channels: Channels) -> set[str]:
    """End every sandbox, whoever has it: it is taken over first; returns their backends."""
    stub = SandboxServiceStub(channels.to("executor"))
    answer = await stub.ListSandboxes(sandbox_pb2.ListSandboxesRequest())
    for sandbox in answer.sandboxes:
        if sandbox.state == sandbox_pb2.SANDBOX_STATE_READY:
            await release(channels, await acquire(channels, sandbox.session_id))
    return {sandbox.backend for sandbox in answer.sandboxes}


class Commands:
    """Runs programs in a sandbox."""

    def __init__(self, channels: Channels, acquired: Acquired) -> None:
        self._stub = ExecServiceStub(channels.to("executor"))
        self._lease = acquired.lease

    async def run_ms(self) -> float:
        """Start a short command and attach to it; the milliseconds until its exit is known."""
        begun = perf_counter()
        async with self._start(PROGRAM) as call:
            async for response in call:
                if response.HasField("exited"):
                    took_ms = (perf_counter() - begun) * 1_000
                    _check(response.exited)
                    return took_ms
        raise BenchError("a command's stream ended without its exit")

    @asynccontextmanager
    async def _start(self, *argv: str) -> AsyncGenerator["Call"]:
        start = exec_pb2.StartExecRequest(
            lease=self._lease, exec_id=new_id("exc"), argv=exec_pb2.Argv(arguments=argv)
        )
        # Without an iterator of requests, which the stubs ask for, the call is written to.
        attach = cast("Callable[[], Call]", self._stub.AttachExec)
        async with open_stream(attach()) as call:
            await call.write(exec_pb2.AttachExecRequest(start=start))
            yield call


def _check(exited: exec_pb2.Exit) -> None:
    if exited.reason != exec_pb2.EXIT_REASON_EXITED or exited.code != 0:
        raise BenchError(f"a command failed: {exited}")
