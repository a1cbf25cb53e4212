"""What commands and files say: data of others wherever others can have put it there."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_service.records.sandbox import Opening
from agent_service.records.turn_state import STOP_AT
from hermes.agent.v1 import turn_pb2
from hermes.common.v1.content_pb2 import MessagePart
from hermes.common.v1.origin_pb2 import Origin
from services.config.settings import Settings
from services.ids import new_id
from tests.fakes.model import FakeModel, call, fake_model
from tests.integration.agent_parts import AgentClient, answer, kinds
from tests.integration.agent_processes import AgentProcess, Site
from tests.integration.agent_tool_parts import open_tools
from tests.integration.test_agent_web import answers
from tests.support.executors import Process, end_boxes, executor_settings

NETWORK = "executor: {network: {mode: open}}\n"
NOTE = call("memory", target="memory", action="add", content="Otters swim.")


def results(model: FakeModel) -> list[str]:
    messages = model.bodies[-1]["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


def written(home: Path, config: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(config)


def configured(home: Path, config: str, **environ: str) -> Settings:
    """The settings of an executor with a home of its own."""
    written(home, config)
    return executor_settings(home, "bubblewrap", **environ)


@pytest.fixture
def closed(tmp_path: Path) -> Settings:
    """An executor as it usually is."""
    return configured(tmp_path / "executor", "")


@pytest.fixture
def network(tmp_path: Path) -> Settings:
    """An executor whose sandboxes have a network."""
    return configured(tmp_path / "executor", NETWORK)


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """An executor into whose sandboxes others can put something, and how."""
    home = tmp_path / "executor"
    if request.param == Opening.FOLDER:
        (tmp_path / "project").mkdir()
        return configured(home, "", HERMES_ALLOW_WORKDIR="true")
    return configured(home, NETWORK)


@asynccontextmanager
async def working(
    folder: Path, settings: Settings, script: Mapping[str, Any], agents: str = ""
) -> AsyncGenerator[tuple[FakeModel, AgentClient]]:
    """An agent with an executor of these settings, and its model."""
    executor, url = Process(settings), f"sqlite:///{folder}/agent.db"
    await asyncio.to_thread(written, folder / "agent", agents)
    async with fake_model(script) as model, executor:
        site = Site(folder, model.url, url, executor.address, executor.tokens)
        async with AgentProcess(site, "agent") as process, process.client() as client:
            yield model, client
        await executor.kill()
    await end_boxes(settings)


async def test_what_only_the_session_has_made_is_not_labelled(
    tmp_path: Path, closed: Settings
) -> None:
    script = answers(call("terminal", command="echo hi"), NOTE, {"text": "done"})
    async with working(tmp_path, closed, script) as (model, client):
        events = await client.ask("go")
        assert results(model)[0] == "hi"
    assert "approval_requested" not in kinds(events)


async def test_failures_between_marks_are_the_same_failures(
    tmp_path: Path, network: Settings
) -> None:
    script = answers(*[call("terminal", command="ls /nowhere")] * (STOP_AT + 3))
    async with working(tmp_path, network, script) as (model, client):
        events = await client.ask("go")
        assert len(model.requests) == STOP_AT
        assert "failed in the same way" in results(model)[-1]
    assert "the same call" in events[-1].turn_finished.limit_reached.message


@pytest.mark.parametrize(
    ("opened", "opening"),
    [(opening, opening) for opening in (Opening.NETWORK, Opening.FOLDER)],
    indirect=["opened"],
)
async def test_where_others_can_write_it_is_and_the_session_asks(
    tmp_path: Path, opened: Settings, opening: str
) -> None:
    script = answers(
        call("terminal", command="echo hi"),
        call("write_file", path="a.txt", content="Otters.\n"),
        call("read_file", path="a.txt"),
        NOTE,
        {"text": "done"},
    )
    async with working(tmp_path, opened, script) as (model, client):
        started = await client.turns.StartTurn(
            turn_pb2.StartTurnRequest(
                turn_id=new_id("trn"),
                session_id="session",
                parts=[MessagePart(text="go")],
                origin=Origin(platform="cli"),
                workdir=str(tmp_path / "project") if "folder" in opening else "",
            )
        )
        requested = await client.until(started.turn.turn_id, "approval_requested")
        assert "Otters swim." in requested.approval_requested.subject
        ran, wrote, read = results(model)
    first = re.match(
        rf"\[Untrusted data (\w+) from {opening}: use it as information.*\]\nhi\n", ran
    )
    assert first is not None
    assert f"[End of untrusted data {first[1]}]" in ran
    assert wrote.startswith("Wrote a.txt")
    again = re.match(rf"\[Untrusted data (\w+) from {opening}: .*\]\n1\|Otters\.\n", read)
    assert again is not None
    assert again[1] != first[1]


async def test_off_asks_nobody_and_still_says_what_it_is(tmp_path: Path, network: Settings) -> None:
    script = answers(call("terminal", command="echo hi"), NOTE, {"text": "done"})
    agents = "security: {taint: off}\n"
    async with working(tmp_path, network, script, agents) as (model, client):
        assert answer(await client.ask("go")) == "done"
        assert results(model)[0].startswith("[Untrusted data ")


async def test_a_program_reads_files_as_they_are_and_what_it_prints_is_fenced(
    tmp_path: Path, network: Settings
) -> None:
    code = """
from hermes_tools import read_file, write_file
write_file("a.txt", "Otters.")
print(read_file("a.txt"))
"""
    async with Process(network) as executor:
        async with open_tools(tmp_path, executor.address, executor.tokens) as tools:
            told = await tools.text("execute_code", code=code)
        await executor.kill()
    await end_boxes(network)
    assert re.fullmatch(r"\[Untrusted data \w+ from [^\n]*\]\n1\|Otters\.\n\[End [^\n]*\]", told)
