"""The guide's tool, backend and platform really work."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_service.records.sandbox import PathRefused
from agent_service.tools.base import ToolContext
from agent_service.tools.toolbox import Toolbox
from executor_service.backends.base import GIB, MIB, Backend, Limits
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.backends.supervisor_zipapp import build_zipapp
from gateway_service.platforms.base import Platform
from tests.contract import test_platforms
from tests.contract.backend_suite_boxes import BoxSuite
from tests.contract.platform_world import Failure, World
from tests.samples.backend import FrugalBackend
from tests.samples.platform import FolderPlatform
from tests.samples.tool import CountWords
from tests.support.boxes import Yard, open_console
from tests.support.requirements import require

MODULE = pytest.mark.asyncio(loop_scope="module")

# ---- the tool


class Folder:
    """The files of a sandbox, in a folder of the test; the tool only reads."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def read(self, path: str, max_bytes: int) -> bytes:
        try:
            return await asyncio.to_thread((self._root / path).read_bytes)
        except FileNotFoundError:
            raise PathRefused(f"{path} does not exist") from None


async def test_the_tool_counts_and_says_what_it_cannot_do(tmp_path: Path) -> None:
    unused: Any = None
    files: Any = Folder(tmp_path)
    context = ToolContext("call_1", unused, files, unused, unused, unused, None, print)

    def made(*_: object) -> ToolContext:
        return context

    await asyncio.to_thread((tmp_path / "a.txt").write_text, "one two\nthree\n")
    tool = CountWords()
    described = Toolbox([tool], made).schemas(frozenset())
    assert b"Counts the lines, words and bytes" in described
    counted = await tool.run(CountWords.arguments(path="a.txt"), context)
    assert counted.text == "2 lines, 3 words, 14 bytes"
    with pytest.raises(PathRefused, match=r"b\.txt does not exist"):
        await tool.run(CountWords.arguments(path="b.txt"), context)


# ---- the backend


def frugal(owner: str, folder: Path) -> Backend:
    return FrugalBackend(BubblewrapBackend(owner, folder, build_zipapp()), 256 * MIB)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the backend keeps what it must, and workspaces are."""
    return tmp_path_factory.mktemp("boxes")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(folder: Path) -> AsyncIterator[Yard]:
    """The backend that the suites are run against."""
    opened = await Yard.open(frugal, f"test-{uuid.uuid4().hex}", folder)
    require("bubblewrap", opened.capabilities.available, opened.capabilities.reason)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def other(yard: Yard) -> AsyncIterator[Yard]:
    """A second object of the same backend and owner, as after the executor's restart."""
    again = await yard.again()
    yield again
    await again.backend.close()


@MODULE
class TestBoxes(BoxSuite):
    """What a backend itself does; the other suites are of what runs in every box."""


@MODULE
async def test_the_backend_gives_less_memory_than_is_asked_for(yard: Yard) -> None:
    enforced = (await yard.backend.probe()).limits.memory
    require("bubblewrap", enforced == "kernel", "this machine lets nobody limit memory")
    async with (
        yard.box(Limits(memory_bytes=2 * GIB, tmp_bytes=32 * MIB)) as box,
        open_console(yard.backend, box) as console,
    ):
        assert box.backend == "frugal"
        recorder = await console.start("python3", "-c", "bytearray(400 * 1024 * 1024)")
        assert (await recorder.exit()).code != 0


# ---- the platform


class FolderWorld(World):
    """People who move files into a folder; buttons and failures it has none."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._said = 0

    def connect(self) -> Platform:
        return FolderPlatform(self._root)

    async def say(self, text: str) -> None:
        self._said += 1
        await put(self._root / "in" / f"{self._said}-5.txt", text)

    async def press(self, message_id: str, data: str) -> None:
        raise NotImplementedError

    def fail(self, how: Failure) -> None:
        raise NotImplementedError

    async def files(self) -> Sequence[tuple[str, bytes]]:
        return []

    async def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {path.name: (path.read_text(), []) for path in self._root.glob("out/5-*.md")}


@pytest.mark.parametrize(
    "check_promise",
    [
        test_platforms.test_the_account_is_known_before_it_is_connected,
        test_platforms.test_what_is_said_is_received_in_order,
        test_platforms.test_what_was_not_stored_comes_again_as_the_same,
        test_platforms.test_waiting_for_events_can_be_given_up,
    ],
)
async def test_the_platform_does_what_every_platform_does(
    tmp_path: Path, check_promise: Callable[[World], Awaitable[None]]
) -> None:
    await asyncio.to_thread((tmp_path / "in").mkdir)
    await check_promise(FolderWorld(tmp_path))


async def put(path: Path, text: str) -> None:
    """Put a message there, as a whole."""
    draft = path.with_suffix(".draft")
    await asyncio.to_thread(draft.write_text, text)
    await asyncio.to_thread(draft.rename, path)
