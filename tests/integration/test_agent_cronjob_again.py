"""Calls of `cronjob` that are made again by whoever resumes their turn, with the real scheduler."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from agent_service.clients.jobs import SchedulerJobs
from agent_service.records.calls import StepState
from agent_service.security.threats import ThreatScanner
from agent_service.tools.cronjob.cronjob import Cronjob
from agent_service.tools.guards.taint import Screen
from services.rpc.addresses import UnixAddress
from services.rpc.auth import new_tokens
from services.rpc.channels import Channels
from tests.fakes.model import fake_model
from tests.integration.agent_tool_parts import Tools, open_tools
from tests.integration.test_agent_cronjob import everything, jobs_of
from tests.integration.test_agent_web import answers

TEA = {"action": "create", "schedule": "every day at 9:00", "prompt": "tea", "name": "tea"}


@asynccontextmanager
async def scheduling(folder: Path) -> AsyncGenerator[tuple[Tools, Channels]]:
    """The tools of a turn, with a scheduler that has one job."""
    async with (
        fake_model(answers({"text": "done"})) as model,
        everything(folder, model) as channels,
    ):
        tool = Cronjob(SchedulerJobs(channels), Screen(ThreatScanner()))
        nowhere = UnixAddress(folder / "nobody.sock")
        async with open_tools(folder, nowhere, new_tokens(), more=(tool,)) as tools:
            await tools.text("cronjob", **TEA)
            yield tools, channels


async def test_a_job_is_created_once_though_the_call_is_made_twice(tmp_path: Path) -> None:
    async with scheduling(tmp_path) as (tools, channels):
        more = {"schedule": "in 2 hours", "prompt": "look", "name": "look"}
        call = tools.pending("cronjob", {"action": "create", **more})
        (first,) = await tools.run(call)
        after = await jobs_of(channels)
        (again,) = await tools.run(tools.resumed(call))
        assert not first.is_error
        assert (again.text, again.is_error) == (first.text, False)
        assert await jobs_of(channels) == after


async def test_a_change_that_may_have_been_made_is_not_made_again(tmp_path: Path) -> None:
    async with scheduling(tmp_path) as (tools, channels):
        call = tools.pending("cronjob", {"action": "remove", "job_id": "tea"})
        await tools.run(call)
        await tools.text("cronjob", **TEA)
        (again,) = await tools.run(replace(tools.resumed(call), state=StepState.DISPATCHED))
        assert (again.is_error, again.uncertain) == (True, True)
        assert [job.name for job in await jobs_of(channels)] == ["tea"]
