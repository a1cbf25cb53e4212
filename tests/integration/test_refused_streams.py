"""Streams that a service refuses while the client still writes to them, over a socket."""

from collections import Counter as Counted
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc.aio
import pytest

from hermes.executor.v1 import file_pb2, file_pb2_grpc
from services.errors import Reason, reason_of
from tests.fakes.component import running


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
