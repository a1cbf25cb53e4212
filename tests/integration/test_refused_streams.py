"""Streams that a service refuses while the client still writes to them, over a socket."""

import asyncio
from collections import Counter as Counted
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.executor.v1 import exec_pb2, exec_pb2_grpc, file_pb2, file_pb2_grpc
from services.auth import Identity
from services.channels import Channels
from services.errors import Reason, reason_of
from tests.fakes.component import Counter, running

STDIN = exec_pb2.AttachExecRequest.Stdin(data=bytes(32 * 1024))
INPUT = exec_pb2.AttachExecRequest(stdin=STDIN)


async def test_a_refusal_that_comes_while_a_stream_is_sent_is_what_is_told(tmp_path: Path) -> None:
    """One of a hundred was told as an internal error, one of ten on a busy machine."""

    async def endless() -> AsyncGenerator[file_pb2.UploadFileRequest]:
        while True:
            yield file_pb2.UploadFileRequest(chunk=bytes(32 * 1024))

    async with running(tmp_path) as served, served.channels() as channels:
        files = file_pb2_grpc.FileServiceStub(channels.to("agent"))
        told: Counted[Reason] = Counted()
        for _ in range(100):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await files.UploadFile(endless())
            told[reason_of(caught.value)] += 1
    assert told == {Reason.INVALID_ARGUMENT: 100}


async def iterated(execs: Any) -> None:
    async def endless() -> AsyncGenerator[exec_pb2.AttachExecRequest]:
        while True:
            yield INPUT

    async for _ in execs.AttachExec(endless()):
        pass


async def written(execs: Any) -> None:
    call = execs.AttachExec()
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while True:
            await call.write(INPUT)
    await call.read()


@pytest.mark.parametrize("attach", [iterated, written])
async def test_a_refusal_of_a_stream_that_is_answered_meanwhile_is_told_and_counted(
    tmp_path: Path, attach: Callable[[Any], Awaitable[None]]
) -> None:
    """Nine of ten were told as internal errors, as the client still wrote."""
    counter = Counter()
    async with running(tmp_path) as served:
        places, token = {"agent": served.address}, served.tokens[Identity.GATEWAY]
        async with Channels(Identity.GATEWAY, places, token=token, observer=counter) as channels:
            execs = exec_pb2_grpc.ExecServiceStub(channels.to("agent"))
            told: Counted[Reason] = Counted()
            for _ in range(100):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await attach(execs)
                told[reason_of(caught.value)] += 1
    assert told == {Reason.INVALID_ARGUMENT: 100}
    assert Counted(counter.calls) == {("AttachExec", "INVALID_ARGUMENT"): 100}
