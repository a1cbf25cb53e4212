"""What the agent does where there are several executors, and one of them dies or drains."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

import grpc.aio
import pytest
import sqlalchemy as sa

from agent_service.clients.executors import Executors
from agent_service.storage.schema import turn
from hermes.executor.v1 import sandbox_pb2
from services.config.settings import Settings
from services.errors import Reason, reason_of
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from tests.integration.agent_tool_parts import AWAY_S, Tools, open_tools
from tests.support.executor_client import Client
from tests.support.executors import Process, end_boxes, executor_settings, serving, until
from tests.support.ssh_server import SshServer, ssh_server

MOVED_WITHIN_S = 10.0


class Pair:
    """Two executors behind one address, which leads to the first that was told to take calls."""

    def __init__(self, folder: Path, backend: str, **environ: str) -> None:
        self.tokens = new_tokens()
        self.near = UnixAddress(folder / "near.sock")
        self.first, self.second = (
            self._executor(folder / name, backend, environ) for name in ("one", "two")
        )

    def _executor(self, home: Path, backend: str, environ: Mapping[str, str]) -> Process:
        settings = executor_settings(
            home,
            backend,
            HERMES_KEEP_SANDBOXES="true",
            HERMES_EXECUTOR_ENDPOINT=f"unix:{home}/run/hermes.sock",
            **environ,
        )
        settings.home.create()
        executor = Process(settings, tokens=self.tokens)
        assert executor.address == UnixAddress(home / "run" / "hermes.sock")
        return executor

    async def lead_to(self, executor: Process) -> None:
        def lead() -> None:
            self.near.path.unlink(missing_ok=True)
            self.near.path.symlink_to(executor.address.path)

        await asyncio.to_thread(lead)

    async def lose_first(self) -> None:
        """The first dies, and the address leads to the second."""
        await self.first.kill()
        await self.lead_to(self.second)

    @property
    def settings(self) -> list[Settings]:
        return [self.first.settings, self.second.settings]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Two that run, the first of which takes new sessions."""
    async with running(await asyncio.to_thread(Pair, tmp_path, "bubblewrap")) as pair:
        yield pair


@pytest.fixture
def machine() -> Iterator[SshServer]:
    """A machine on which both can run commands."""
    with ssh_server() as server:
        yield server


@pytest.fixture
async def pair_of_one_machine(tmp_path: Path, machine: SshServer) -> AsyncIterator[Pair]:
    """Two whose sandboxes are at the same account of the same machine."""
    environ = {**machine.environ, "HERMES_WORKSPACES_SHARED": "true"}
    made = await asyncio.to_thread(partial(Pair, tmp_path, "ssh", **environ))
    async with running(made) as pair:
        yield pair


@asynccontextmanager
async def running(pair: Pair) -> AsyncGenerator[Pair]:
    try:
        async with pair.first, pair.second:
            await pair.lead_to(pair.first)
            yield pair
    finally:
        for settings in pair.settings:
            await end_boxes(settings)


async def boxes_of(executor: Process) -> int:
    async with executor.client() as client:
        return len(await sandboxes_of(client))


async def sandboxes_of(client: Client) -> Sequence[sandbox_pb2.Sandbox]:
    request = sandbox_pb2.ListSandboxesRequest()
    # Clients in one process share their lines, and another may have found the executor away.
    return (await client.sandboxes.ListSandboxes(request, wait_for_ready=True)).sandboxes


async def test_a_session_goes_on_elsewhere_when_its_executor_is_dead(
    pair: Pair, tmp_path: Path
) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        assert await tools.shell("echo kept >file; echo made") == "made"
        await pair.lose_first()
        began = time.monotonic()
        told = await tools.shell("ls | wc -l")
        assert time.monotonic() - began < MOVED_WITHIN_S
        news, _, printed = told.rpartition("\n")
        assert "gone with the executor" in news
        assert "does not have the files" in news
        assert printed == "0"
        assert await tools.shell("echo again") == "again", "it is told once"


async def test_a_session_goes_on_elsewhere_when_its_executor_does_not_answer(pair: Pair) -> None:
    places, token = {"executor": pair.second.address}, pair.tokens[Identity.AGENT]
    async with pair.first.client() as client, Channels(Identity.AGENT, places, token=token) as to:
        had = await client.acquire("s")
        pair.first.signal(signal.SIGSTOP)
        request = sandbox_pb2.AcquireSandboxRequest(request_id="r", session_id="s")
        async with asyncio.timeout(MOVED_WITHIN_S):
            found = await Executors(to, AWAY_S).acquire(
                request, str(pair.first.address), had.sandbox.sandbox_id
            )
        assert found.endpoint == str(pair.second.address)
        assert found.launch == sandbox_pb2.LAUNCH_KIND_COLD


async def test_a_session_finds_its_files_where_the_backend_keeps_them(
    pair_of_one_machine: Pair, tmp_path: Path
) -> None:
    pair = pair_of_one_machine
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        await tools.text("write_file", path="file", content="kept")
        await pair.lose_first()
        told = await tools.text("read_file", path="file")
        assert "gone with the executor" in told
        assert "over the same /workspace" in told
        assert "kept" in told
        async with pair.second.client() as client:
            (found,) = await sandboxes_of(client)
            assert found.workspace_id.startswith("wsp_")


async def test_a_command_of_a_dead_executor_is_uncertain_and_runs_once(
    pair: Pair, tmp_path: Path
) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        await tools.shell("true")
        running = asyncio.ensure_future(tools("terminal", command="echo ran; sleep 60"))
        await asyncio.sleep(0.5)
        await pair.lose_first()
        began = time.monotonic()
        returned = await running
        assert time.monotonic() - began < MOVED_WITHIN_S
        assert (returned.is_error, returned.uncertain) == (True, True)
        assert await boxes_of(pair.second) == 0, "nobody has tried it there"
        assert "gone with the executor" in await tools.shell("echo on")
        (known,) = (await tools.text("process", action="list")).splitlines()
        assert "exit code 0" in known, "what ran there is not known here"


async def test_a_dead_executor_that_comes_back_loses_what_has_moved_on(
    pair: Pair, tmp_path: Path
) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        await tools.text("terminal", command="sleep 600", background=True)
        await pair.lose_first()
        assert "gone with the executor" in await tools.shell("echo on")
        await tools.left.end_all()
        await pair.first.__aenter__()
        assert await boxes_of(pair.first) == 1, "it has taken over what it had"
        await until(lambda: _is_left_alone(tools, pair.first))
        assert await boxes_of(pair.second) == 1
        assert await tools.shell("echo on") == "on"


async def test_a_session_that_has_come_back_keeps_its_sandbox(tmp_path: Path) -> None:
    settings = executor_settings(tmp_path, "bubblewrap")
    async with (
        serving(settings) as executor,
        executor.client() as client,
        Channels(
            Identity.AGENT, {"executor": executor.address}, token=executor.tokens[Identity.AGENT]
        ) as channels,
    ):
        executors = Executors(channels, AWAY_S)
        come_back = await client.acquire("s")
        left = come_back.sandbox.sandbox_id
        other = (await client.acquire("t")).sandbox.sandbox_id
        await executors.end("default", "s", left, "", partial(asyncio.sleep, 0, result=False))
        assert len(await sandboxes_of(client)) == 2, "it is not left any more"
        assert await client.output(come_back.lease, "echo mine") == "mine", "it needs no new lease"
        # What it gets is not what was looked for.
        await executors.end("default", "t", left, "", partial(asyncio.sleep, 0, result=True))
        assert len(await sandboxes_of(client)) == 2
        await executors.end("default", "s", left, "", partial(asyncio.sleep, 0, result=True))
        assert [one.sandbox_id for one in await sandboxes_of(client)] == [other]
    await end_boxes(settings)


class InTurn(Channels):
    """Channels to several executors under one name, which each call finds the next of."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(Identity.AGENT, {}, token=pair.tokens[Identity.AGENT])
        self._next = cycle([str(one.address) for one in (pair.first, pair.second)])

    def to(self, service: str) -> grpc.aio.Channel:
        assert service == "executor"
        return self.at(next(self._next))


@pytest.fixture
async def full_pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Two with one place each."""
    most = {"HERMES_MAX_SANDBOXES": "1", "HERMES_WARM_POOL_SIZE": "0"}
    made = await asyncio.to_thread(partial(Pair, tmp_path, "bubblewrap", **most))
    async with running(made) as pair:
        yield pair


async def test_where_one_is_full_another_has_a_place(full_pair: Pair) -> None:
    async def claim(session_id: str, wait_s: float) -> sandbox_pb2.AcquireSandboxResponse:
        request = sandbox_pb2.AcquireSandboxRequest(request_id=session_id, session_id=session_id)
        request.wait.FromMilliseconds(round(wait_s * 1000))
        # The first is always asked first.
        async with InTurn(full_pair) as channels:
            return await Executors(channels, AWAY_S).acquire(request, "", "")

    async with full_pair.second.client() as client:
        first, second = [await claim(session_id, 20) for session_id in ("s", "t")]
        assert first.endpoint == str(full_pair.first.address)
        assert second.endpoint == str(full_pair.second.address)
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await claim("u", 2.5)
        assert reason_of(refused.value) is Reason.POOL_EXHAUSTED
        assert 2 < time.monotonic() - began < 5
        waiting = asyncio.ensure_future(claim("u", 20))
        await asyncio.sleep(0.2)
        await client.release(second.lease)
        assert (await waiting).endpoint == second.endpoint


async def test_a_replica_that_woke_up_late_claims_no_sandbox(pair: Pair, tmp_path: Path) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        later_owner = sa.update(turn).values(epoch=turn.c.epoch + 1)
        await tools.database.write(lambda conn: conn.execute(later_owner))
        assert "another replica" in await tools.refusal("terminal", command="touch file")
        assert await boxes_of(pair.first) == 0


async def test_an_executor_that_restarts_soon_keeps_its_sessions(
    pair: Pair, tmp_path: Path
) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens, away_s=30) as tools:
        await tools.shell("touch file")
        await pair.lose_first()
        coming = asyncio.ensure_future(tools.shell("ls"))
        await asyncio.sleep(0.3)
        await pair.first.__aenter__()
        assert await coming == "file"
        assert await boxes_of(pair.second) == 0


async def test_an_interrupted_command_is_looked_for_at_its_executor_only(
    pair: Pair, tmp_path: Path
) -> None:
    async with open_tools(tmp_path, pair.near, pair.tokens) as tools:
        started = await tools.text("terminal", command="sleep 600", background=True)
        key = started.removesuffix(".").rpartition(" ")[2]
        await pair.lose_first()
        await tools.refusal("process", action="kill", session_id=key)
        assert await boxes_of(pair.second) == 0
        await pair.first.__aenter__()
        await until(lambda: _is_killed(tools, key))


async def _is_left_alone(tools: Tools, executor: Process) -> bool:
    await tools.left.end_all()
    return await boxes_of(executor) == 0


async def _is_killed(tools: Tools, key: str) -> bool:
    return "killed" in (await tools("process", action="kill", session_id=key)).text
