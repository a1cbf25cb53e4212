"""MCP servers of other authors, each in a sandbox, in sessions of the real agent."""

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_ONCE
from tests.fakes.model import call, fake_model
from tests.integration.agent_parts import agent, answer
from tests.integration.test_agent_approvals import asked, resolve
from tests.integration.test_agent_clarifications import give
from tests.integration.test_agent_mcp import question_with
from tests.integration.test_agent_web import answers
from tests.support.executors import until
from tests.support.ports import free_port
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
    (call("mcp_all_get-annotated-message", messageType="success", includeImage=True), "image/png"),
    (call("mcp_all_get-resource-reference", resourceType="Blob", resourceId=1), "binary data"),
    (call("read_mcp_resource", server="all"), "demo://resource/static/document/features.md"),
    (call("read_mcp_resource", server="all"), "demo://resource/dynamic/text/{resourceId}"),
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
        events = await client.ask("go")
    assert answer(events) == "done"
    assert "all: at 1 of 2\n" in "".join(event.tool_progress.text for event in events)
    results = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    texts = [text if isinstance(text, str) else json.dumps(text) for text in results]
    for (made, told), text in zip(READING, texts, strict=True):
        assert told in text, made
    assert "sk-live" not in "".join(texts)
    assert "API_KEY" not in "".join(texts)
    names = {tool["function"]["name"] for tool in model.bodies[0]["tools"]}
    assert {"mcp_fetch_fetch", "mcp_files_read_text_file", "mcp_time_convert_time"} <= names


@asynccontextmanager
async def _everything_over(transport: str) -> AsyncGenerator[int]:
    """Run a server of its authors' beside Hermes; yields its port."""
    folder, port = await asyncio.to_thread(installed), free_port()
    program = folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    process = await asyncio.create_subprocess_exec(
        *(folder / "node", program, transport), env={"PORT": str(port)}, stdout=DEVNULL
    )

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("localhost", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await until(listens, 60)
        yield port
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize(
    ("transport", "path", "more"),
    [("streamableHttp", "mcp", {}), ("sse", "sse", {"transport": "sse"})],
)
async def test_a_server_behind_a_url(
    tmp_path: Path, transport: str, path: str, more: Mapping[str, str]
) -> None:
    sample = call("mcp_all_trigger-sampling-request", prompt="What is an otter?", maxTokens=50)
    read = call(
        "read_mcp_resource", server="all", uri="demo://resource/static/document/features.md"
    )
    mammal = {"user": "What is an otter", "steps": [{"text": "A mammal."}]}
    script = {"rules": [mammal, {"steps": [sample, read, TOLD]}]}
    async with _everything_over(transport) as port, fake_model(script) as model:
        servers = {"all": {"url": f"http://127.0.0.1:{port}/{path}", **more}}
        config = json.dumps({"mcp_servers": servers})
        await asyncio.to_thread((tmp_path / "config.yaml").write_text, config)
        async with agent(tmp_path, model.url) as client:
            started = await client.start("sample")
            question = await asked(client, started.turn_id)
            await resolve(client, question.approval_id, APPROVAL_DECISION_ONCE)
            assert "Features" in answer(await client.watch(started.turn_id))
    sampled, _ = [m["content"] for m in model.bodies[-1]["messages"] if m["role"] == "tool"]
    assert "A mammal." in sampled


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


GZIP, GZIPPED = "mcp_all_gzip-file-as-resource", {"name": "a.gz", "data": "data:text/plain,otters"}


def _gzip(kind: str) -> Mapping[str, Any]:
    return {"tool_calls": [{"name": GZIP, "arguments": {**GZIPPED, "outputType": kind}}]}


CHANGING: tuple[tuple[Mapping[str, Any], str], ...] = (
    (_gzip("resourceLink"), "[resource demo://resource/session/a.gz"),
    (_gzip("resource"), "application/gzip, "),
    (call("mcp_all_toggle-simulated-logging"), "Started simulated"),
    (call("mcp_all_toggle-simulated-logging"), "Stopped simulated"),
    (call("mcp_all_toggle-subscriber-updates"), "Started simulated"),
    (call("mcp_all_toggle-subscriber-updates"), "Stopped simulated"),
    (call("read_mcp_resource", server="all", uri="demo://resource/session/a.gz"), "binary data"),
)


def _scripted(calls: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A script that makes the call of the number that the user says."""
    return {"rules": [{"user": f"^call {n}$", "steps": [one, TOLD]} for n, one in enumerate(calls)]}


async def test_everything_that_changes_something(home: Path) -> None:
    script = _scripted([made for made, _ in CHANGING])
    async with fake_model(script) as model, _running(home, model.url) as client:
        for number, (made, told) in enumerate(CHANGING):
            # Each session has read nothing that is untrusted, so nobody is asked.
            events = await client.ask(f"call {number}", session_id=f"session-{number}")
            assert told in answer(events), made


PROMPTS = (
    ("simple-prompt", "go", "This is a simple prompt without arguments."),
    ("args-prompt", "city=Boston state=MA", "What's weather in Boston, MA?"),
    ("completable-prompt", "department=Sales name=David", "David"),
    ("resource-prompt", "resourceType=Text resourceId=1", "Resource 1: This is a plaintext"),
    ("resource-prompt", "resourceType=Blob resourceId=1", "binary data"),
)


async def test_prompts_are_loaded_with_their_arguments(home: Path) -> None:
    async with fake_model(answers({"text": "ok"})) as model, _running(home, model.url) as client:
        await client.ask("first")  # connects
        for number, (name, said, told) in enumerate(PROMPTS):
            session, skills = f"session-{number}", [f"mcp-prompts/all_{name}"]
            await client.ask(said, session_id=session, skills=skills)
            assert told in json.dumps(model.bodies[-1]["messages"])


FORM = (
    ("\nString: ", "Ada Lovelace", "Ada Lovelace"),
    ("\nBoolean: ", "yes", True),
    ("\nString with default: ", "-", "It was a dark and stormy night."),
    ("\nString with email format: ", "ada", None),
    ("“ada” does not fit. Answer with an e-mail address", "ada@example.com", "ada@example.com"),
    ("\nString with uri format: ", "https://ada.example/", "https://ada.example/"),
    ("\nString with date format: ", "1815-12-10", "1815-12-10"),
    ("\nInteger: ", "101", None),
    ("“101” does not fit. Answer with a whole number, at least 1, at most 100", "7", 7),
    ("\nNumber in range 1-1000: ", "-", 3.14),
    ("\nUntitled Single Select Enum: ", "ross", "Ross"),
    ("\nUntitled Multiple Select Enum: ", "Piano, Bass", ["Piano", "Bass"]),
    ("\nTitled Single Select Enum: ", "3", "hero-3"),
    ("\nTitled Multiple Select Enum: ", "-", ["fish-1"]),
    ("\nLegacy Titled Single Select Enum: ", "Birds", "pet-3"),
)
"""Questions of the form, answers, and what the server gets; None is asked again."""


async def test_a_form_with_every_kind_of_field(home: Path) -> None:
    script = answers(call("mcp_all_trigger-elicitation-request"), TOLD)
    async with fake_model(script) as model, _running(home, model.url) as client:
        started = await client.start("ask")
        for number, (expected, text, _) in enumerate(FORM):
            await question_with(client, started.turn_id, expected)
            await give(client, text, session_id="session", answer_id=f"cli:{number}")
        told = answer(await client.watch(started.turn_id))
    content = json.loads(told[told.index("{", told.index("Raw result")) : told.rindex("}") + 1])
    got = [value for _, _, value in FORM if value is not None]
    assert content["action"] == "accept"
    assert list(content["content"].values()) == got


PAY = call("mcp_all_trigger-url-elicitation", url="https://pay.example/1")
PAY_LATER = call("mcp_all_trigger-url-elicitation", url="https://pay.example/1", errorPath=True)
PAGES = (
    (0, (("https://pay.example/1", "1"),), "User completed the URL elicitation flow"),
    (0, (("https://pay.example/1", "2"),), "User declined to open the URL"),
    (
        1,
        (("https://modelcontextprotocol.io", "done"), ("https://pay.example/1", "done")),
        "User completed the URL elicitation flow",
    ),
)
"""The number of the call, which pages are asked for with what people answer, and what is told."""


async def test_pages_that_a_server_asks_to_open(home: Path) -> None:
    script = _scripted([PAY, PAY_LATER])
    async with fake_model(script) as model, _running(home, model.url) as client:
        for session, (made, pages, told) in enumerate(PAGES):
            started = await client.start(f"call {made}", session_id=f"session-{session}")
            for number, (page, text) in enumerate(pages):
                await question_with(client, started.turn_id, f"if you trust the server: {page}")
                answer_id = f"cli:{session}-{number}"
                await give(client, text, session_id=f"session-{session}", answer_id=answer_id)
            assert told in answer(await client.watch(started.turn_id))
