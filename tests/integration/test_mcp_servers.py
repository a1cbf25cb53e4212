"""MCP servers of other authors, each in a sandbox, in sessions of the real agent."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_ONCE
from tests.fakes.model import fake_model
from tests.integration.agent_parts import agent, answer
from tests.integration.test_agent_approvals import asked, resolve
from tests.integration.test_agent_clarifications import give
from tests.integration.test_agent_mcp import question_with
from tests.integration.test_agent_web import answers, call
from tests.support.requirements import require

pytestmark = pytest.mark.timeout(240)
TOLD = {"text": "{tool_result}"}


def installed() -> Path:
    """The folder with the servers; the test is skipped if they are not installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "hermes-tests" / "mcp"
    require("mcp-servers", (folder / "installed").exists(), "tests/mcp/make-servers installs them")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the servers."""
    folder = installed()
    modules = "/workspace/node_modules/@modelcontextprotocol"
    python = {"command": "python3", "env": {"PYTHONPATH": "/workspace/python"}}
    node = {"command": "/workspace/node"}
    servers: dict[str, dict[str, Any]] = {
        "all": {**node, "args": [f"{modules}/server-everything/dist/index.js", "stdio"]},
        "files": {**node, "args": [f"{modules}/server-filesystem/dist/index.js", "/workspace"]},
        "time": {**python, "args": ["-m", "mcp_server_time"]},
        "fetch": {**python, "args": ["-m", "mcp_server_fetch"]},
    }
    config = {name: {**entry, "workdir": str(folder)} for name, entry in servers.items()}
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(json.dumps({"mcp_servers": config}))
    (home / ".env").write_text("OTHER_API_KEY=sk-live-0123456789abcdef\n")
    return home


def _running(home: Path, url: str) -> Any:
    variables = {"HERMES_BACKEND": "bubblewrap", "HERMES_ALLOW_WORKDIR": "true"}
    variables |= {"HERMES_WARM_POOL_SIZE": "0", "HERMES_KEEP_SANDBOXES": "false"}
    return agent(home, url, ("agent", "executor"), **variables)


READING: tuple[tuple[Mapping[str, Any], str], ...] = (
    (call("mcp_all_echo", message="otters"), "Echo: otters"),
    (call("mcp_all_get-sum", a=2, b=3), "5"),
    (call("mcp_all_get-structured-content", location="Chicago"), "humidity"),
    (call("mcp_all_get-annotated-message", messageType="error"), "Operation failed"),
    (call("mcp_all_get-resource-links", count=2), "[resource demo://resource/dynamic/"),
    (call("mcp_all_get-resource-reference", resourceType="Text", resourceId=1), "plaintext"),
    (call("mcp_all_get-tiny-image"), "[a picture, image/png"),
    (call("mcp_all_trigger-long-running-operation", duration=1, steps=2), "completed"),
    (call("mcp_all_get-env"), "PATH"),
    (call("read_mcp_resource", server="all"), "demo://resource/static/document/features.md"),
    (
        call("read_mcp_resource", server="all", uri="demo://resource/static/document/features.md"),
        "Features",
    ),
    (call("mcp_time_get_current_time", timezone="Asia/Tokyo"), "Asia/Tokyo"),
    (call("mcp_files_list_directory", path="/workspace"), "[DIR] node_modules"),
)


async def test_everything_that_reads(home: Path) -> None:
    script = answers(*(made for made, _ in READING), {"text": "done"})
    async with fake_model(script) as model, _running(home, model.url) as client:
        assert answer(await client.ask("go")) == "done"
    results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    texts = [text if isinstance(text, str) else json.dumps(text) for text in results]
    for (made, told), text in zip(READING, texts, strict=True):
        assert told in text, made
    assert "sk-live" not in "".join(texts)
    assert "API_KEY" not in "".join(texts)
    names = {tool["function"]["name"] for tool in model.bodies[0]["tools"]}
    assert {"mcp_fetch_fetch", "mcp_files_read_text_file", "mcp_time_convert_time"} <= names


async def test_questions_of_a_server_to_the_model_and_the_user(home: Path) -> None:
    calls = (
        call("mcp_all_trigger-sampling-request", prompt="What is an otter?", maxTokens=50),
        {"text": "A mammal."},
        TOLD,
    )
    async with fake_model(answers(*calls)) as model, _running(home, model.url) as client:
        started = await client.start("sample")
        question = await asked(client, started.turn_id)
        await resolve(client, question.approval_id, APPROVAL_DECISION_ONCE)
        assert "A mammal." in answer(await client.watch(started.turn_id))
    form = answers(call("mcp_all_trigger-elicitation-request"), TOLD)
    async with fake_model(form) as model, _running(home, model.url) as client:
        started = await client.start("ask", session_id="second")
        await question_with(client, started.turn_id, "\nString: Your full, legal name\n")
        await give(client, "decline", session_id="second", answer_id="cli:1")
        assert "declined" in answer(await client.watch(started.turn_id))
