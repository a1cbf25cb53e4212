"""The MCP server, driven by the client of the `mcp` package over both transports."""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import beside, model_at, one_process, running
from tests.e2e.home import HERMES, Home
from tests.e2e.model import ModelProcess, calls, model_process, rule, terminal_call, tool_call
from tests.support.ports import free_port

pytestmark = pytest.mark.timeout(120)

RULES = (
    rule("remove", calls(terminal_call("rm -r src; echo gone")), {"text": "It is done."}),
    rule("colour", calls(tool_call("clarify", question="Which colour?")), {"text": "Fine."}),
    rule("", {"text": "You said: {user}"}),
)
KEYS = {tier: f"{tier}-{secrets.token_hex(12)}" for tier in ("read", "operate", "own")}
READ = {
    *("approvals_list", "jobs_list", "memory_read", "session_read", "sessions_list"),
    *("sessions_search", "skill_read", "skills_list", "turn_follow"),
}
OPERATE = {"ask", "job_run", "message_send", "question_answer", "turn_stop"}
OWN = {"approval_decide", "job_add", "job_remove", "memory_change", "session_delete"}
GIVEN: dict[str, dict[str, str]] = {
    "ask": {"message": "hello"},
    "job_run": {"job_id": "job_1"},
    "message_send": {"text": "hello"},
    "question_answer": {"question_id": "q", "answer": "blue"},
    "turn_stop": {"turn_id": "trn_1"},
    "approval_decide": {"approval_id": "apr_1", "decision": "deny"},
    "job_add": {"schedule": "every 2h", "prompt": "hello"},
    "job_remove": {"job_id": "job_1"},
    "memory_change": {"target": "user", "action": "add", "content": "Likes tea."},
    "session_delete": {"session_id": "s"},
}
"""Valid arguments, so that nothing but the tier refuses a call."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Generator[ModelProcess]:
    with model_process(tmp_path_factory.mktemp("model"), RULES) as process:
        yield process


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    need_backend("bubblewrap", tmp_path / "probe")
    return {**sandboxed("bubblewrap"), "approvals": {"mode": "manual"}}


@asynccontextmanager
async def over_stdio(home: Home, *options: str) -> AsyncGenerator[Client]:
    arguments = ["mcp", "serve", *options]
    program = StdioServerParameters(command=str(HERMES), args=arguments, env=home.environ)
    async with Client(stdio_client(program)) as client:
        yield client


@asynccontextmanager
async def over_http(port: int, key: str) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with await asyncio.to_thread(httpx2.AsyncClient, headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def refused(client: Client, tool: str) -> bool:
    """Whether a tool that the tier does not have cannot be called."""
    try:
        told = str((await client.call_tool(tool, GIVEN[tool])).content)
    except Exception as error:  # noqa: BLE001 - the SDK's own, which depends on the protocol's era
        told = str(error)
    return "nknown tool" in told


def test_what_is_no_message_is_answered_with_an_error(tmp_path: Path) -> None:
    told = Home.make(tmp_path).run("mcp", "serve", text='{"jsonrpc"\n{"a": 1}\n').out
    errors = [json.loads(line) for line in told.splitlines()]
    assert [(it["id"], it["error"]["code"]) for it in errors] == [(None, -32700), (None, -32600)]


async def use_everything(client: Client) -> None:
    """Do what the owner can do."""
    said = await call(client, "ask", message="hello")
    assert said["completed"]["answer"] == "You said: hello"
    assert said["usage"]["prompt_tokens"] > 0
    waiting = await call(client, "ask", message="remove", session_id=said["session_id"])
    assert waiting["state"] == "TURN_STATE_WAITING_PERSON"
    (approval_id,) = waiting["waits_for"]
    (listed,) = (await call(client, "approvals_list"))["approvals"]
    assert (listed["approval_id"], listed["subject"]) == (approval_id, "rm -r src; echo gone")
    await call(client, "approval_decide", approval_id=approval_id, decision="deny")
    ended = await call(client, "turn_follow", turn_id=waiting["turn_id"])
    assert (ended["completed"]["answer"], ended["tools"]) == ("It is done.", ["terminal"])

    asked = await call(client, "ask", message="colour", session_id=said["session_id"])
    (question_id,) = asked["waits_for"]
    await call(client, "question_answer", question_id=question_id, answer="blue")
    fine = await call(client, "turn_follow", turn_id=asked["turn_id"])
    assert fine["completed"]["answer"] == "Fine."
    assert (await call(client, "turn_stop", turn_id=asked["turn_id"]))["turn"]["state"] == (
        "TURN_STATE_COMPLETED"
    )
    found = await call(client, "sessions_search", query="hello")
    assert {hit["session_id"] for hit in found["hits"]} >= {said["session_id"]}
    read = await call(client, "session_read", session_id=said["session_id"])
    assert read["messages"][0]["text"] == "hello"

    remember = {"target": "user", "content": "likes blue"}
    await call(client, "memory_change", action="add", **remember)
    memories = (await call(client, "memory_read"))["memories"]
    assert ["likes blue"] in [memory.get("entries") for memory in memories]
    await call(client, "memory_change", action="remove", target="user", old_text="likes blue")
    job = (await call(client, "job_add", schedule="every 2h", prompt="look"))["job"]["job_id"]
    assert [it["job_id"] for it in (await call(client, "jobs_list"))["jobs"]] == [job]
    assert (await call(client, "job_run", job_id=job))["run"]["job_id"] == job
    await call(client, "job_remove", job_id=job)
    sent = await call(client, "message_send", text="hi", target=f"cli:{said['session_id']}")
    assert sent["delivery"]["delivery_id"].startswith("dlv_")
    await call(client, "skills_list")
    missing = await client.call_tool("skill_read", {"name": "nothing"})
    assert missing.is_error
    await call(client, "session_delete", session_id=said["session_id"])
    sessions = (await call(client, "sessions_list")).get("sessions", [])
    assert said["session_id"] not in [it["session_id"] for it in sessions]


async def test_a_client_uses_every_tool_over_standard_streams(
    tmp_path: Path, model: ModelProcess, config: dict[str, Any]
) -> None:
    home = await asyncio.to_thread(Home.make, tmp_path, config, **model_at(model.url))
    async with over_stdio(home, "--tier", "own") as client:
        assert await names(client) == READ | OPERATE | OWN
        await use_everything(client)
    async with over_stdio(home) as client:
        assert await names(client) == READ
        assert await refused(client, "ask")


async def test_a_client_uses_every_tool_over_http_and_each_key_opens_its_tier(
    tmp_path: Path, model: ModelProcess, config: dict[str, Any]
) -> None:
    port = free_port()
    variables = {f"API_SERVER_MCP_{tier.upper()}_KEY": key for tier, key in KEYS.items()}
    variables["API_SERVER_PORT"] = str(port)
    served = await asyncio.to_thread(one_process, tmp_path, model.url, config, **variables)
    async with beside(running(served)):
        async with over_http(port, KEYS["own"]) as client:
            assert await names(client) == READ | OPERATE | OWN
            await use_everything(client)
        async with over_http(port, KEYS["operate"]) as client:
            assert await names(client) == READ | OPERATE
            assert [await refused(client, tool) for tool in OWN] == [True] * len(OWN)
        async with over_http(port, KEYS["read"]) as client:
            assert await names(client) == READ
            assert [await refused(client, tool) for tool in OPERATE | OWN] == [True] * 10
        async with await asyncio.to_thread(httpx2.AsyncClient) as http:
            for headers in ({}, {"Authorization": "Bearer nothing"}):
                answer = await http.post(
                    f"http://127.0.0.1:{port}/mcp", json={"jsonrpc": "2.0"}, headers=headers
                )
                assert answer.status_code == 401
            chat = await http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json={})
            assert chat.status_code == 404, "the keys of the MCP server open nothing else"
