"""Calls of a tool of an MCP server whose program runs in a sandbox and does nothing itself."""

import asyncio
import shutil
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
from tests.fakes import mcp_program

_WARM_UP = 5


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
