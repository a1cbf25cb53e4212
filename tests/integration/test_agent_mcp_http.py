"""MCP servers behind HTTP, and logins at them."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from agent_service.assembly.mcp_logins import log_in, log_out
from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_DENY
from services.config.settings import load_settings
from services.runtime.logins import LoggedIn
from tests.fakes import http_server
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import agent, answer, notices
from tests.integration.test_agent_approvals import asked, resolve
from tests.integration.test_agent_web import answers
from tests.support.executors import until
from tests.support.ports import free_port

TOLD = {"text": "{tool_result}"}


@asynccontextmanager
async def serving(*options: str) -> AsyncGenerator[str]:
    """The fake server; yields its URL."""
    port = free_port()
    command = (sys.executable, "-m", "tests.fakes.mcp_http", str(port), *options)
    process = await asyncio.create_subprocess_exec(*command)

    async def answers_now() -> bool:
        try:
            async with httpx.AsyncClient() as client:
                await client.get(f"http://127.0.0.1:{port}/")
        except httpx.ConnectError:
            return False
        return True

    try:
        await until(answers_now, 60)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


def configure(home: Path, url: str, **more: Any) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"mcp_servers": {"far": {"url": url, **more}}}))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_tools_and_resources_of_a_url(tmp_path: Path, transport: str) -> None:
    calls = (
        call("mcp_far_add", a=2, b=3),
        call("read_mcp_resource", server="far"),
        call("read_mcp_resource", server="far", uri="memo://first"),
        call("mcp_far_much"),
        TOLD,
    )
    async with serving() as served:
        url = served if transport == "http" else served.replace("/mcp", "/sse")
        await asyncio.to_thread(configure, tmp_path, url, transport=transport)
        async with fake_model(answers(*calls)) as model, agent(tmp_path, model.url) as client:
            await client.ask("go")
    results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    assert "\n5\n" in results[0]
    assert "memo://first: The first memo." in results[1]
    assert "Feed the otters." in results[2]
    assert "The MCP server far failed" in results[3]


@pytest.mark.timeout(180)
async def test_a_tainted_session_asks_before_it_reads_what_the_server_does_not_list(
    tmp_path: Path,
) -> None:
    leak = call("read_mcp_resource", server="far", uri="memo://secret")
    async with serving() as url:
        await asyncio.to_thread(configure, tmp_path, url)
        replies = answers(call("mcp_far_add", a=2, b=3), leak, TOLD)
        async with fake_model(replies) as model, agent(tmp_path, model.url) as client:
            started = await client.start("go")
            question = await asked(client, started.turn_id)
            resource, why = question.subject.split("\n")
            assert resource == "read_mcp_resource far memo://secret"
            assert why.startswith("(asked because ")
            await resolve(client, question.approval_id, APPROVAL_DECISION_DENY)
            assert "denied" in answer(await client.watch(started.turn_id))


@pytest.mark.timeout(180)
async def test_a_login_is_kept_renewed_and_forgotten(tmp_path: Path) -> None:
    async with serving("--logins") as url:
        await asyncio.to_thread(configure, tmp_path, url, auth="oauth")
        settings = await asyncio.to_thread(
            load_settings, {"home": str(tmp_path)}, {"HOME": str(tmp_path)}
        )
        calls = answers(call("mcp_far_add", a=2, b=3), TOLD)
        async with fake_model(calls) as model:
            async with agent(tmp_path, model.url) as client:
                events = await client.ask("add")
                assert "run hermes mcp login far" in "".join(notices(events))
            async with (
                aclosing(log_in(settings, "far", 0)) as steps,
                httpx.AsyncClient() as browser,
            ):
                page = await anext(steps)
                assert isinstance(page, str)
                visit = asyncio.create_task(browser.get(page, follow_redirects=True))
                done = await anext(steps)
                assert isinstance(done, LoggedIn)
                assert done.place.endswith("auth.json")
                assert "go back to the terminal" in (await visit).text
            await asyncio.sleep(2.1)  # the token is no longer good
            async with agent(tmp_path, model.url) as client:
                assert "\n5\n" in answer(await client.ask("add", session_id="second"))
            assert await log_out(settings, "far")
            assert not await log_out(settings, "far")


NAMES = [f"server-{number}" for number in range(30)]
TOOLS_OF_ONE = 14


async def small_server(request: web.Request) -> web.Response:
    """One of many servers; each has a path of its own."""
    message: dict[str, Any] = json.loads(await request.text() or "{}")
    about = {"description": "Does much. " * 20, "inputSchema": {"type": "object"}}
    said = f"{request.path} does {message.get('params', {}).get('name')}"
    results: dict[str, dict[str, Any]] = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": request.path, "version": "1"},
        },
        "tools/list": {"tools": [{"name": f"do_{n}", **about} for n in range(TOOLS_OF_ONE)]},
        "tools/call": {"content": [{"type": "text", "text": said}]},
    }
    if "id" not in message:
        return web.Response(status=202 if message else 405)
    result = results.get(message["method"])
    unknown = {"error": {"code": -32601, "message": "unknown"}}
    outcome: dict[str, Any] = unknown if result is None else {"result": result}
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], **outcome})


@pytest.mark.timeout(180)
async def test_many_servers_cost_nothing_before_a_session_and_little_of_its_prompt(
    tmp_path: Path,
) -> None:
    asked_of = list[str]()

    async def serve(request: web.Request) -> web.Response:
        asked_of.append(request.path)
        return await small_server(request)

    listener, url = http_server.bind()
    servers = {name: {"url": f"{url}/{name}"} for name in NAMES}
    config = json.dumps({"mcp_servers": servers})
    await asyncio.to_thread((tmp_path / "config.yaml").write_text, config)
    chosen: dict[str, Any] = {"name": "mcp_server-7_do_3", "arguments": {}}
    calls = answers({"tool_calls": [{"name": "tool_call", "arguments": chosen}]}, TOLD)
    async with http_server.serving(listener, serve), fake_model(calls) as model:
        async with agent(tmp_path, model.url) as client:
            assert not asked_of, "a start connects to none"
            assert "/server-7 does do_3" in answer(await client.ask("go"))
            assert set(asked_of) == {f"/{name}" for name in NAMES}
        asked_of.clear()
        async with agent(tmp_path, model.url) as client:
            assert "/server-7 does do_3" in answer(await client.ask("go", session_id="second"))
            assert set(asked_of) == {"/server-7"}, "the tools of the others are known"
    for body in model.bodies:
        tools = [tool["function"]["name"] for tool in body["tools"]]
        assert tools[-3:] == ["tool_search", "tool_call", "read_mcp_resource"]
        assert all(f"{name} ({TOOLS_OF_ONE})" in json.dumps(body["tools"][-3]) for name in NAMES)
        assert len(json.dumps(body["tools"][-3:])) / 4 < 600
        assert not any(name in body["messages"][0]["content"] for name in NAMES)
