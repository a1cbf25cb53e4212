"""The README's tool, backend and platform really work."""

import asyncio
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry

from agent_service import app as agent_app
from agent_service.sandbox import PathRefused
from agent_service.tools.base import ToolContext
from agent_service.tools.toolbox import Toolbox
from executor_service.backends.base import GIB, MIB, Backend, Limits
from executor_service.backends.bubblewrap.backend import BubblewrapBackend
from executor_service.supervisor_zipapp import build_zipapp
from gateway_service import app as gateway_app
from gateway_service.authorization import Access
from gateway_service.platforms.base import Platform
from gateway_service.platforms.builtin import Configured
from services.addresses import Address, UnixAddress
from services.auth import Identity, new_tokens
from services.channels import Channels
from services.component import Component
from services.config import Settings, load_settings
from services.lifecycle import Workers
from services.metrics import Meter
from services.server import Listen, Server
from tests.boxes import Console, Yard, open_console
from tests.contract import test_platforms
from tests.contract.backend_suite_boxes import BoxSuite
from tests.contract.backend_suite_commands import CommandSuite
from tests.contract.backend_suite_endings import EndingSuite
from tests.contract.backend_suite_files import FileSuite
from tests.contract.platforms import Failure, World
from tests.fakes.model import answers, fake_model
from tests.requirements import require
from tests.samples.backend import FrugalBackend
from tests.samples.platform import FolderPlatform
from tests.samples.tool import CountWords

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
    context = ToolContext("call_1", unused, files, unused, None, print)

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(yard: Yard) -> AsyncIterator[Console]:
    """One box for all tests that leave no trace in it."""
    async with yard.box() as box, open_console(yard.backend, box) as opened:
        yield opened


@MODULE
@pytest.mark.slow
class TestBoxes(BoxSuite):
    """See backend_suite_boxes."""


@MODULE
class TestCommands(CommandSuite):
    """See backend_suite_commands."""


@MODULE
@pytest.mark.slow
class TestEndings(EndingSuite):
    """See backend_suite_endings."""


@MODULE
@pytest.mark.slow
class TestFiles(FileSuite):
    """See backend_suite_files."""


@MODULE
async def test_the_backend_gives_less_memory_than_is_asked_for(yard: Yard) -> None:
    enforced = (await yard.backend.probe()).limits.memory
    require("bubblewrap", enforced == "enforced", "this machine lets nobody limit memory")
    async with (
        yard.box(Limits(memory_bytes=2 * GIB, tmp_bytes=32 * MIB)) as box,
        open_console(yard.backend, box) as console,
    ):
        assert box.backend == "frugal"
        recorder = await console.start("python3", "-c", "bytearray(400 * 1024 * 1024)")
        assert (await recorder.exit()).code != 0


# ---- the platform


class FolderWorld:
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

    def shown(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        return {path.name: (path.read_text(), []) for path in self._root.glob("out/5-*.md")}


@pytest.mark.parametrize(
    "check_promise",
    [
        test_platforms.test_the_account_is_known_before_it_is_connected,
        test_platforms.test_what_is_said_is_received_in_order,
        test_platforms.test_what_was_not_confirmed_comes_again_as_the_same,
        test_platforms.test_waiting_for_events_can_be_given_up,
    ],
)
async def test_the_platform_does_what_every_platform_does(
    tmp_path: Path, check_promise: Callable[[World], Awaitable[None]]
) -> None:
    await asyncio.to_thread((tmp_path / "in").mkdir)
    await check_promise(FolderWorld(tmp_path))


@asynccontextmanager
async def running(settings: Settings, configured: Configured) -> AsyncGenerator[None]:
    """The agent, and a gateway that runs an account."""
    socket, tokens = UnixAddress(settings.home.socket), new_tokens()
    addresses: dict[str, Address | str] = {"agent": socket, "gateway": socket}
    async with AsyncExitStack() as stack:

        async def channels(identity: Identity) -> Channels:
            made = Channels(identity, addresses, token=tokens[identity])
            return await stack.enter_async_context(made)

        meters = [Meter(CollectorRegistry()) for _ in addresses]
        agent = agent_app.build(settings, await channels(Identity.AGENT), meters[0])
        to_agent = await channels(Identity.GATEWAY)
        gateway = gateway_app.build_with([configured], settings, to_agent, meters[1])
        components: list[Component] = [agent, gateway]
        server = await stack.enter_async_context(
            Server(components, Listen((socket,), tokens=tokens))
        )
        for component in components:
            await stack.enter_async_context(component)
        workers = await stack.enter_async_context(Workers())
        await server.start()
        for component in components:
            workers.start(component.name, component.run())
        yield
        for component in components:
            await component.drain()


async def put(path: Path, text: str) -> None:
    """Put a message there, as a whole."""
    draft = path.with_suffix(".draft")
    await asyncio.to_thread(draft.write_text, text)
    await asyncio.to_thread(draft.rename, path)


async def written(path: Path, text: str) -> None:
    """Return once a file holds the text."""
    for _ in range(400):
        if await asyncio.to_thread(lambda: path.exists() and path.read_text() == text):
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{path} does not say {text!r}")


async def test_the_platform_answers_those_who_may_talk(tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    await asyncio.to_thread((chats / "in").mkdir, parents=True)
    configured = Configured(FolderPlatform(chats), Access(frozenset({"ann"})))
    async with fake_model(answers({"text": "Hello, Ann!"}, {"text": "Still here."})) as model:
        environ = {"HERMES_HOME": f"{tmp_path}/home", "HERMES_BASE_URL": model.url}
        settings = load_settings({}, {**environ, "HERMES_MODEL": "m"})
        await asyncio.to_thread(settings.home.create)
        async with running(settings, configured):
            await put(chats / "in" / "1-eve.txt", "let me in")
            await put(chats / "in" / "2-ann.txt", "hi")
            await written(chats / "out" / "ann-1.md", "Hello, Ann!")
            await put(chats / "in" / "3-ann.txt", "are you there?")
            await written(chats / "out" / "ann-2.md", "Still here.")
    assert len(model.requests) == 2
    names = await asyncio.to_thread(lambda: sorted(path.name for path in chats.glob("out/*")))
    assert names == ["ann-1.md", "ann-2.md"]
