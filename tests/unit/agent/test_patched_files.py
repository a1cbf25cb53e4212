"""A patch of several files whose turn is interrupted while it is written."""

import asyncio

import pytest

from agent_service.records.sandbox import FileStat
from agent_service.tools.patching.files import PatchedFiles
from agent_service.tools.patching.forms import read

PATCH = """*** Begin Patch
*** Add File: one
+1
*** Add File: two
+2
*** End Patch"""


class SlowFiles:
    """Empty files of a sandbox that takes its time."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.writing = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def stat(self, path: str) -> FileStat | None:
        return None

    async def write(self, path: str, data: bytes) -> None:
        self.writing.set()
        await self.may_go_on.wait()
        self.written.append(path)

    async def list(self, path: str, limit: int) -> tuple[list[FileStat], bool]:
        raise NotImplementedError

    async def read(self, path: str, max_bytes: int) -> bytes:
        raise NotImplementedError

    async def move(self, source: str, target: str) -> None:
        raise NotImplementedError

    async def remove(self, path: str) -> None:
        raise NotImplementedError


async def test_it_is_written_to_its_end() -> None:
    files = SlowFiles()
    applying = asyncio.create_task(PatchedFiles(files).apply(read(PATCH)))
    await files.writing.wait()
    applying.cancel()
    files.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await applying
    assert files.written == ["one", "two"]
