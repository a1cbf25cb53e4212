"""What programs of MCP servers reach: their `hosts`, with their `secrets`, and nothing else."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_service.assembly.mcp import Dialer
from agent_service.clients.executors import Executors
from agent_service.clients.processes import Processes
from agent_service.config import AgentConfig
from agent_service.config.mcp import McpServer
from agent_service.models.oauth.store import LoginFile, LoginStore
from agent_service.records.mcp import ServerCatalog
from agent_service.tools.mcp.connection import ServerConnection
from agent_service.tools.mcp.request_handlers import RefusingHandler
from agent_service.tools.mcp.results import render_call
from services.config.settings import Settings, load_settings
from services.lifecycle import Workers
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from tests.fakes import mcp_program
from tests.integration.test_mcp_servers import installed
from tests.support.executors import end_boxes, executor_settings, serving
from tests.support.world import FRIENDLY, HOSTILE, World

pytestmark = pytest.mark.timeout(120)
SECRET = "sk-live-0123456789abcdef"
ASK = """
import json, os, ssl, urllib.request
got = []
for url in {urls!r}:
    try:
        trust = ssl.create_default_context(cadata={authority!r})
        if file := os.environ.get("SSL_CERT_FILE"):
            trust.load_verify_locations(file)
        fields = {{"Authorization": "Bearer " + os.environ.get("API_TOKEN", "none")}}
        asked = urllib.request.Request(url, None, fields)
        with urllib.request.urlopen(asked, timeout=20, context=trust) as answer:
            got.append(json.loads(answer.read())["machine"])
    except OSError as error:
        got.append("refused: " + str(error))
got.append(sorted(os.environ.items()))
"""


@pytest.fixture
async def settings(tmp_path: Path, world: World) -> AsyncIterator[Settings]:
    """Those of an executor whose sandboxes have no network of their own, and one secret."""
    home, file = tmp_path / "home", tmp_path / "token"
    hosts = [f"{name}.test:{world.https_port}" for name in ("good", "evil")]
    secret = {"file": str(file), "hosts": hosts}
    templates = {"own": {"network_secrets": ["API_TOKEN"]}}
    config = {"executor": {"secrets": {"API_TOKEN": secret}, "templates": templates}}

    def prepare() -> Settings:
        home.mkdir()
        file.write_text(f"{SECRET}\n")
        (home / "config.yaml").write_text(json.dumps(config))
        return executor_settings(home, "bubblewrap", HERMES_ALLOW_WORKDIR="true")

    settings = await asyncio.to_thread(prepare)
    yield settings
    await end_boxes(settings)


@asynccontextmanager
async def calling(
    settings: Settings, world: World, folder: Path, **configured: Any
) -> AsyncGenerator[Any]:
    """A function that calls tools of a server whose program runs in a sandbox."""
    server = McpServer(workdir=str(folder), **configured)
    home = settings.home.root
    environ = {"HOME": str(home), "HERMES_HOME": str(home)}
    config = await asyncio.to_thread(lambda: load_settings({}, environ).load(AgentConfig))
    async with (
        serving(settings, world.gate()) as executor,
        Channels(
            Identity.AGENT, {"executor": executor.address}, token=executor.tokens[Identity.AGENT]
        ) as channels,
        Workers() as workers,
    ):
        processes = Processes(Executors(channels, 5), "test")
        logins = LoginStore(LoginFile(home / "auth.json"))
        dial = Dialer(config, processes, logins).dial("default", "net", server)
        connection = ServerConnection("net", server, dial, _same)
        workers.start("server", connection.run())
        await connection.opened()

        async def call(tool: str, **arguments: Any) -> str:
            result = await connection.call_tool(tool, arguments, RefusingHandler())
            return render_call(result).text

        yield call
        connection.close()


async def _same(catalog: ServerCatalog) -> ServerCatalog:
    return catalog


async def test_a_program_reaches_its_hosts_with_its_secrets_and_nothing_else(
    tmp_path: Path, settings: Settings, world: World
) -> None:
    folder = tmp_path / "program"
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread(shutil.copy, mcp_program.__file__, folder / "server.py")
    await asyncio.to_thread(folder.chmod, 0o777)
    names = ("good.test", "other.good.test", "evil.test", "inside.test")
    urls = [world.https(name) for name in names] + [world.http("good.test")]
    text = ASK.format(urls=urls, authority=world.authority)
    program = {"command": ["python3", "/workspace/server.py"], "template": "own"}
    hosts = [f"good.test:{world.https_port}"]
    reached = f"got: ['{FRIENDLY}', 'refused: "
    async with calling(
        settings, world, folder, **program, hosts=hosts, secrets=["API_TOKEN"]
    ) as call:
        told = await call("shell", text=text)
    assert told.startswith(reached)
    assert told.count("refused: ") == len(urls) - 1
    assert SECRET not in told
    (seen,) = world.seen
    assert seen.headers["authorization"] == f"Bearer {SECRET}"


async def test_mcp_server_fetch_reads_pages_of_its_hosts(settings: Settings, world: World) -> None:
    folder = await asyncio.to_thread(installed)
    async with calling(
        settings,
        world,
        folder,
        command=["python3", "-m", "mcp_server_fetch"],
        env={"PYTHONPATH": "/workspace/python"},
        hosts=[f"good.test:{world.http_port}"],
    ) as call:
        assert f'"machine": "{FRIENDLY}"' in await call("fetch", url=world.http("good.test", "/a"))
        refused = await call("fetch", url=world.http("evil.test", "/a"))
    assert HOSTILE not in refused
    assert {seen.machine for seen in world.seen} == {FRIENDLY}
    assert [seen.path for seen in world.seen] == ["/robots.txt", "/a"]
