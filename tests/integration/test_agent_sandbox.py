"""What the agent does when its executor, or a sandbox, is not there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from executor_service.journal import Journal
from services.config.settings import Settings
from services.rpc.addresses import UnixAddress
from services.rpc.auth import new_tokens
from tests.fakes.executor import forgetful_executor
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.support.executors import Process, end_boxes, executor_settings

_T = TypeVar("_T")

RESTART_S = 1.0
"""Longer than a channel repeats a call by itself."""


@pytest.fixture
async def settings(tmp_path: Path) -> AsyncIterator[Settings]:
    """Those of an executor whose sandboxes outlive it; no box is left at the end."""
    settings = executor_settings(tmp_path, "bubblewrap", HERMES_KEEP_SANDBOXES="true")
    yield settings
    await end_boxes(settings)


class Stage:
    """The tools of a turn, and an executor that comes and goes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.tokens = new_tokens()
        self.executor = Process(settings, tokens=self.tokens)

    @asynccontextmanager
    async def tools(self) -> AsyncGenerator[Tools]:
        await asyncio.to_thread(self.settings.home.create)
        address = UnixAddress(self.settings.home.socket)
        async with open_tools(self.settings.home.root, address, self.tokens) as tools:
            yield tools

    async def away_for(self, call: Awaitable[_T]) -> _T:
        """What comes of a call that is made while the executor restarts."""
        await self.executor.kill()
        calling = asyncio.ensure_future(call)
        await asyncio.sleep(RESTART_S)
        await self.executor.__aenter__()
        return await calling


async def test_a_sandbox_that_is_not_known_is_no_missing_file(settings: Settings) -> None:
    stage = Stage(settings)
    try:
        await stage.executor.__aenter__()
        async with stage.tools() as tools:
            await tools.text("write_file", path="file", content="kept")
            await stage.executor.kill()
            async with Journal(settings.home.state / "executor" / "journal.db") as journal:
                (claim,) = await journal.claims()
                await journal.forget_sandbox(claim.sandbox_id)
            await stage.executor.__aenter__()
            assert "kept" in await tools.text("read_file", path="file")
            assert "no other" in await tools.refusal("read_file", path="other")
    finally:
        await stage.executor.kill()


async def test_a_folder_that_is_missing_is_named_and_nothing_is_uncertain(
    settings: Settings,
) -> None:
    stage = Stage(settings)
    try:
        await stage.executor.__aenter__()
        async with stage.tools() as tools:
            for background in (False, True):
                missing = {"workdir": "/no/such", "background": background}
                refused = await tools("terminal", command="pwd", **missing)
                assert refused.is_error
                assert "No such file or directory: /no/such" in refused.text
            refused = await stage.away_for(tools("terminal", command="pwd", workdir="none"))
            assert (refused.is_error, refused.uncertain) == (True, False)
            assert "/workspace/none" in refused.text
    finally:
        await stage.executor.kill()


@pytest.mark.timeout(120)
async def test_an_executor_that_restarts_is_waited_for(settings: Settings) -> None:
    stage = Stage(settings)
    try:
        async with stage.tools() as tools:
            shell = tools.text("terminal", command="echo first >file; cat file")
            assert await stage.away_for(shell) == "first"
            reading = tools.text("read_file", path="file")
            assert "first" in await stage.away_for(reading)
            await stage.away_for(tools.text("write_file", path="file", content="second"))
            background = tools.text("terminal", command="cat file; sleep 60", background=True)
            key = (await stage.away_for(background)).removesuffix(".").rpartition(" ")[2]
            looking = tools.text("process", action="log", session_id=key)
            assert "second" in await stage.away_for(looking)
            ending = tools.text("process", action="kill", session_id=key)
            assert "killed" in await stage.away_for(ending)
    finally:
        await stage.executor.kill()


@pytest.mark.parametrize("background", [False, True])
async def test_what_may_have_started_is_not_started_again(tmp_path: Path, background: bool) -> None:
    address = UnixAddress(tmp_path / "executor.sock")
    async with (
        forgetful_executor(address) as executor,
        open_tools(tmp_path, address, new_tokens()) as tools,
    ):
        returned = await tools("terminal", command="deploy", background=background)
    assert (returned.is_error, returned.uncertain) == (True, True)
    assert executor.started == executor.sandboxes == ["sbx_1"]
