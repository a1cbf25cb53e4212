"""Calls of `cronjob` that are made again by whoever resumes their turn, with the real scheduler."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("create", {"schedule": "in 2 hours", "prompt": "look", "name": "look"}),
        ("update", {"job_id": "tea", "schedule": "in 2 hours", "name": "coffee"}),
        ("pause", {"job_id": "tea"}),
        ("remove", {"job_id": "tea"}),
    ],
)
async def test_it_does_once_what_it_says_twice(
    tmp_path: Path, action: str, more: dict[str, Any]
) -> None:
    async with scheduling(tmp_path) as (tools, channels):
        call = tools.pending("cronjob", {"action": action, **more})
        (first,) = await tools.run(call)
        after = await jobs_of(channels)
        await asyncio.sleep(1.1)  # what counts from now would be another time
        (again,) = await tools.run(replace(tools.resumed(call), state=StepState.DISPATCHED))
        assert not first.is_error
        assert (again.text, again.is_error) == (first.text, False)
        assert await jobs_of(channels) == after


async def test_what_it_means_stays_though_another_has_the_name_by_then(tmp_path: Path) -> None:
    async with scheduling(tmp_path) as (tools, channels):
        call = tools.pending("cronjob", {"action": "remove", "job_id": "tea"})
        await tools.run(call)
        await tools.text("cronjob", **TEA)
        (again,) = await tools.run(replace(tools.resumed(call), state=StepState.DISPATCHED))
        assert not again.is_error
        assert [job.name for job in await jobs_of(channels)] == ["tea"]
