"""MCP servers: calls of a program that does nothing itself, and what many add to a start."""

import asyncio
import json
import shutil
from pathlib import Path
from statistics import median
from time import perf_counter

from agent_service.assembly.mcp import Dialer
from agent_service.clients.executors import Executors
from agent_service.clients.processes import Processes
from agent_service.config import AgentConfig
from agent_service.config.mcp import McpServer
from agent_service.models.oauth.store import LoginFile, LoginStore
from agent_service.records.mcp import ServerCatalog
from agent_service.tools.mcp.connection import ServerConnection
from agent_service.tools.mcp.request_handlers import RefusingHandler
from services.config.settings import load_settings
from services.lifecycle import Workers
from tests.bench.executor.process import executor
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.hermes import started
from tests.bench.model_process import model_process
from tests.fakes import mcp_program

_WARM_UP = 5
_MANY = 30


async def calls(plan: Plan) -> list[Reading]:
    """Measure calls of a warm program; what it does itself takes next to no time."""
    folder = plan.folder / "mcp-program"
    folder.mkdir()
    shutil.copy(mcp_program.__file__, folder / "server.py")
    folder.chmod(0o777)
    argv = ("python3", "/workspace/server.py")
    server = McpServer(command=argv, workdir=str(folder))
    environ = {"HOME": str(plan.folder), "HERMES_HOME": str(plan.folder / "home")}
    config = load_settings({}, environ).load(AgentConfig)
    allowed = {"HERMES_ALLOW_WORKDIR": "true"}
    async with executor(plan.folder / "mcp", "bubblewrap", **allowed) as running, Workers() as work:
        processes = Processes(Executors(running.channels, 5), "bench")
        dial = Dialer(config, processes, LoginStore(LoginFile(plan.folder / "auth.json"))).dial(
            "default", "bench", server
        )
        connection = ServerConnection("bench", server, dial, _same)
        work.start("server", connection.run())
        await connection.opened()
        times_ms = [await _call_ms(connection) for _ in range(_WARM_UP + plan.samples)]
        connection.close()
    return [Reading("mcp_call_ms", Spread.of(times_ms[_WARM_UP:]))]


async def _same(catalog: ServerCatalog) -> ServerCatalog:
    return catalog


async def _call_ms(connection: ServerConnection) -> float:
    await asyncio.sleep(0)
    begun = perf_counter()
    await connection.call_tool("echo", {"text": "hi"}, RefusingHandler())
    return (perf_counter() - begun) * 1_000


async def starts(plan: Plan) -> list[Reading]:
    """Measure how much later `hermes up` is ready with many servers, which it need not start."""
    without, many = plan.folder / "without-servers", plan.folder / "with-servers"
    servers = {f"server{number}": {"command": "python3"} for number in range(_MANY)}
    for home, configured in ((without, {}), (many, servers)):
        home.mkdir()
        (home / "config.yaml").write_text(json.dumps({"mcp_servers": configured}))
    before_ms, after_ms = list[float](), list[float]()
    async with model_process() as url:
        for home, times_ms in ((without, before_ms), (many, after_ms)) * (plan.repeats + 1):
            times_ms.append(await _start_ms(home, url))
    # The first ones make the homes.
    usual_ms = median(before_ms[1:])
    added = Spread.of([time_ms - usual_ms for time_ms in after_ms[1:]])
    return [Reading("mcp_start_added_ms", added, f"{usual_ms:.0f} ms without servers")]


async def _start_ms(home: Path, url: str) -> float:
    async with started(home, url) as serving:
        return serving.ready_s * 1_000
