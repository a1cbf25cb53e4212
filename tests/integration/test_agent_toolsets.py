"""Toolsets that are off: in the configuration, in requests to the model, at the command line."""

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from hermes.agent.v1.tool_catalog_pb2 import ListToolsRequest
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from tests.fakes.model import fake_model
from tests.integration.agent_parts import agent, answer

CALL = {"tool_calls": [{"name": "terminal", "arguments": {"command": "true"}}]}
SCRIPT = {"rules": [{"steps": [CALL, {"text": "{tool_result}"}]}]}


def hermes(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from services.cli.main import main; main()"
    argv = [sys.executable, "-c", program, *arguments, "--home", str(home)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=50)


def offered(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body["tools"]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home where one toolset is off, and another one in a profile."""
    off = (
        "tools: {disabled: [todo], profiles: {work: [terminal]}, platforms: {telegram: [file]},"
        " only: {platforms: {slack: [terminal, todo]}}}\n"
    )
    (tmp_path / "config.yaml").write_text(off)
    return tmp_path


async def test_a_toolset_that_is_off_is_not_offered_and_not_run(home: Path) -> None:
    async with fake_model(SCRIPT) as model, agent(home, model.url) as client:
        started = await client.start("go", profile="work", session_id="of_work")
        events = await client.watch(started.turn_id, profile="work")
        assert "There is no tool 'terminal'" in answer(events)
        assert not offered(model.bodies[0]) & {"todo", "terminal", "process"}
        assert "read_file" in offered(model.bodies[0])
        assert "There is no tool" not in answer(await client.ask("go"))
        assert "terminal" in offered(model.bodies[-1])
        assert "todo" not in offered(model.bodies[-1])
        stub = ToolCatalogServiceStub(client.channels.to("agent"))
        listed = (await stub.ListTools(ListToolsRequest(profile="work"))).tools
        why = {tool.name: tool.reason for tool in listed if not tool.enabled}
        assert why["todo"] == "turned off"
        assert why["terminal"] == "turned off in the profile work"
        listed = (await stub.ListTools(ListToolsRequest(platform="telegram"))).tools
        state = {tool.name: (tool.enabled, tool.reason) for tool in listed}
        assert state["read_file"] == (False, "turned off on telegram")
        assert state["terminal"] == (True, "")
        listed = (await stub.ListTools(ListToolsRequest())).tools
        elsewhere = {tool.name: dict(tool.off_on_platforms) for tool in listed}
        assert elsewhere["read_file"] == {
            "slack": "not among those that slack has",
            "telegram": "turned off on telegram",
        }
        assert elsewhere["terminal"] == elsewhere["todo"] == {}
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.ListTools(ListToolsRequest(platform="t" * 65))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.timeout(180)
async def test_toolsets_are_turned_off_and_on_at_the_command_line(tmp_path: Path) -> None:
    work = tmp_path / "profiles" / "work"
    await asyncio.to_thread(work.mkdir, parents=True)

    async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(hermes, tmp_path, "tools", *arguments)

    changed = await run("disable", "vision", "todo", "--json")
    assert json.loads(changed.stdout) == {"key": "tools.disabled", "disabled": ["vision", "todo"]}
    assert (await run("enable", "vision")).returncode == 0
    assert (await run("disable", "file", "--profile", "work")).returncode == 0
    rows = json.loads((await run("list", "--json", "--profile", "work")).stdout)
    state = {row["name"]: row["enabled"] for row in rows}
    assert (state["todo"], state["read_file"]) == (True, False), "a profile has its own"
    rows = json.loads((await run("--json")).stdout)
    state = {row["name"]: row["enabled"] for row in rows}
    assert (state["todo"], state["read_file"], state["vision_analyze"]) == (False, True, True)

    wrong = await run("disable", "visoin")
    assert wrong.returncode != 0
    assert "did you mean vision?" in wrong.stderr
    wrong = await run("disable", "read_file")
    assert "use its toolset file" in wrong.stderr


async def test_the_command_line_shows_what_a_platform_has(home: Path) -> None:
    shown = await asyncio.to_thread(hermes, home, "tools", "--platform", "telegram", "--json")
    rows = {row["name"]: row for row in json.loads(shown.stdout)}
    assert (rows["read_file"]["enabled"], rows["read_file"]["reason"]) == (
        False,
        "turned off on telegram",
    )
    assert rows["terminal"]["enabled"]
    shown = await asyncio.to_thread(hermes, home, "tools", "list")
    assert "Not on slack, telegram." in shown.stdout
    refused = await asyncio.to_thread(
        hermes, home, "tools", "--platform", "telegram", "disable", "file"
    )
    assert refused.returncode != 0
    assert "tools.platforms" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("stt: {enabled: false}", "stt.enabled is false; type: hermes config set stt"),
        ("tts: {provider: piper}", " tts.piper.voice is not set (or OPENAI_API_KEY"),
        ("tts: {piper: {voice: /a.onnx}}", "type: pip install 'hermes-services[local-speech]'"),
    ],
)
async def test_the_list_says_what_the_chosen_provider_lacks(
    tmp_path: Path, settings: str, told: str
) -> None:
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, settings)
    shown = await asyncio.to_thread(hermes, tmp_path, "tools")
    assert told in " ".join(shown.stdout.split("\n")) or find_spec("piper")
