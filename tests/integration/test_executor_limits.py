"""The size of workspaces, and starts that cannot succeed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import grpc.aio
import pytest
from msgspec.structs import replace

from hermes.executor.v1 import exec_pb2, file_pb2, sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason, message_of, reason_of
from tests.support.executor_client import Client
from tests.support.executors import end_boxes, executor_settings, serving

MIB = 1024 * 1024


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Settings]:
    """An executor whose workspaces may have a few megabytes; no box is left at the end."""
    text = f"executor:\n  workspace_bytes: {4 * MIB}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, text)
    settings = await asyncio.to_thread(executor_settings, tmp_path, "bubblewrap")
    yield settings
    await end_boxes(settings)


async def test_more_files_than_are_counted_at_once_are_counted_apart(tmp_path: Path) -> None:
    text = f"executor:\n  workspace_bytes: {16 * MIB}\n"
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, text)
    settings = await asyncio.to_thread(executor_settings, tmp_path, "bubblewrap")
    async with serving(settings) as executor, executor.client() as client:
        lease = (await client.acquire("s")).lease
        # An empty one counts as 256 bytes.
        script = "seq 60000 | xargs touch; sleep 5; echo stays"
        assert await client.output(lease, script) == "stays"
        await upload(client, lease, "little", 10)
        seen = await client.run(lease, script="seq 60001 68000 | xargs touch; sleep 60")
        assert seen.exit is not None
        assert seen.exit.reason == exec_pb2.EXIT_REASON_DISK_QUOTA
        assert "executor.workspace_bytes" in await why(upload(client, lease, "little", 10))
    await end_boxes(settings)


async def test_what_is_sent_to_a_full_workspace_is_refused(small: Settings) -> None:
    async with serving(small) as executor, executor.client() as client:
        lease = (await client.acquire("s")).lease
        # Nothing runs in it.
        await upload(client, lease, "some", MIB)
        for size in (4 * MIB, 64 * MIB):
            assert "no room" in await why(upload(client, lease, "large", size))
        await upload(client, lease, "/tmp/large", 5 * MIB)
        assert await client.output(lease, "ls -A") == "some"
        await client.output(lease, "head -c 3M /dev/urandom > more")
        assert "executor.workspace_bytes" in await why(upload(client, lease, "little", 10))
        await client.output(lease, "rm more")
        await upload(client, lease, "little", 10)
        await client.output(lease, "mkdir -p $(printf 'd/%.0s' $(seq 250))")
        assert "too deep" in await why(upload(client, lease, "more", 10))


async def upload(client: Client, lease: sandbox_pb2.Lease, path: str, size: int) -> None:
    """Writes a file of zeros."""
    content = bytes(size)
    header = file_pb2.UploadFileRequest.Header(
        lease=lease, path=path, length_bytes=size, sha256=hashlib.sha256(content).digest()
    )

    async def messages() -> AsyncIterator[file_pb2.UploadFileRequest]:
        yield file_pb2.UploadFileRequest(header=header)
        for start in range(0, size, 32 * 1024):
            yield file_pb2.UploadFileRequest(chunk=content[start : start + 32 * 1024])

    await client.files.UploadFile(messages())


async def why(call: Awaitable[object]) -> str:
    """What is said of a call for which there is no room."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert reason_of(caught.value) is Reason.LIMIT_EXCEEDED
    return message_of(caught.value)


async def test_a_folder_of_the_host_has_no_limit(small: Settings, tmp_path: Path) -> None:
    folder = tmp_path.parent / f"{tmp_path.name}-project"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "large").write_bytes, bytes(8 * MIB))
    settings = replace(small, environ={**small.environ, "HERMES_ALLOW_WORKDIR": "true"})
    async with serving(settings) as executor, executor.client() as client:
        lease = (await client.acquire(workdir=str(folder))).lease
        seen = await client.run(lease, script="sleep 4; ls")
        assert (seen.code, seen.stdout) == (0, b"large\n")
