"""What a person is told about programs of MCP servers that do not start."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from hermes.agent.v1 import mcp_pb2
from hermes.agent.v1.mcp_pb2_grpc import McpServiceStub
from tests.integration.test_agent_mcp import running


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("no-such-npx", ("No such file or directory: no-such-npx", "make sandbox-image")),
        (("sh", "-c", "exec no-such-npx"), ("exec: no-such-npx: not found", "make sandbox-image")),
        (("python3", "-m", "gone"), ("exit code 1; its last errors", "No module named gone")),
        (("sh", "-c", "echo 3 tries >&2; sleep 60"), ("in time", "3 tries", "hosts is not set")),
        (("sh", "-c", "echo EAI_AGAIN >&2; exit 1"), ("EAI_AGAIN", "hosts is not set")),
    ],
    ids=["no program", "no program in a script", "an error", "no answer", "no network"],
)
async def test_a_program_that_does_not_start_says_why_and_what_to_do(
    tmp_path: Path, command: Any, told: tuple[str, ...]
) -> None:
    config = {"mcp_servers": {"bad": {"command": command, "connect_timeout": 4}}}
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, json.dumps(config))
    async with running(tmp_path, {"text": "hi"}) as (client, _):
        stub = McpServiceStub(client.channels.to("agent"))
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.TestMcpServer(mcp_pb2.TestMcpServerRequest(name="bad"))
    for part in told:
        assert part in (failed.value.details() or "")
