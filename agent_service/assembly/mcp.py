"""Connects the agent to MCP servers."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from agent_service.assembly.core import Core
from agent_service.assembly.models import login_store
from agent_service.clients.executors import Executors
from agent_service.clients.processes import Processes, Program
from agent_service.config import AgentConfig
from agent_service.config.mcp import McpServer
from agent_service.models.oauth.store import LoginStore
from agent_service.security.fetch.destinations import Destinations
from agent_service.security.fetch.urls import vetted_transport
from agent_service.tools.base import Tool
from agent_service.tools.guards.taint import Screen
from agent_service.tools.mcp.servers import Servers
from agent_service.tools.toolbox import MCP
from services.clock import SystemClock

_SHOWN_CHARS = 500
_SLOW = "it did not answer in time"
_NETWORK = re.compile("EAI_AGAIN|ENOTFOUND|unreachable|resol(ve|ution)", re.IGNORECASE)
MAX_CONNECTIONS = 32
"""To one server; a call may keep its connection for minutes."""


def mcp_servers(
    core: Core, executors: Executors, screen: Screen, tools: Sequence[Tool[Any]]
) -> tuple[Servers, frozenset[str]]:
    """The configured servers, not connected yet, and the toolsets of all tools with theirs."""
    config, database = core.config, core.database
    processes = Processes(executors, core.owner.instance)
    dialer = Dialer(config, processes, login_store(core.settings, config, database))
    servers = Servers(config.mcp_servers, dialer.dial, database, screen, asks=core.asks_taint)
    more = {MCP} if servers.configured else set[str]()
    return servers, frozenset(more.union(tool.toolset for tool in tools))


class Dialer:
    """Opens the streams of servers."""

    def __init__(self, config: AgentConfig, processes: Processes, logins: LoginStore) -> None:
        self._config = config
        self._processes = processes
        self._logins = logins

    def dial(
        self, profile: str, name: str, server: McpServer
    ) -> Callable[[Callable[[str], None]], AbstractAsyncContextManager[Any]]:
        if server.url:
            return lambda _: self._http(name, server)
        program = Program(
            profile,
            name,
            server.argv,
            server.env,
            server.secrets,
            server.hosts,
            server.template or self._config.sandbox.template_for(profile, ""),
            server.workdir,
        )
        return lambda ended: self._program(program, ended)

    @asynccontextmanager
    async def _program(self, program: Program, ended: Callable[[str], None]) -> AsyncGenerator[Any]:
        from agent_service.tools.mcp.transports import program_transport

        async with self._processes.run(program) as process:

            def report(why: str) -> None:
                ended(explain(why, program, process.error_text))

            try:
                async with program_transport(process, report) as streams:
                    yield streams
            finally:
                report(process.ending or _SLOW)

    @asynccontextmanager
    async def _http(self, name: str, server: McpServer) -> AsyncGenerator[Any]:
        from agent_service.tools.mcp.oauth import StoredLogin

        auth = None
        if server.auth == "oauth":
            auth = StoredLogin(name, server.url, self._logins, SystemClock())
        async with http_streams(self._config, server, auth) as streams:
            yield streams


def explain(why: str, program: Program, errors: str) -> str:
    """Say why a program ended or did not answer, what it wrote last, and what to do."""
    said = f"{why}; its last errors: {errors[-_SHOWN_CHARS:]}" if errors else why
    if f"No such file or directory: {program.argv[0]}" in why or "exit code 127" in why:
        return (
            f"{said}\nThe sandbox lacks a program: add its package to docker/sandbox-packages.txt "
            "and run make sandbox-image, or set a template whose image has it"
        )
    if not program.hosts and (why == _SLOW or _NETWORK.search(errors)):
        return f"{said}\nIt has no network, because hosts is not set"
    return said


@asynccontextmanager
async def http_streams(
    config: AgentConfig, server: McpServer, auth: Any = None
) -> AsyncGenerator[Any]:
    """The streams of a server behind a URL; `auth` is an `httpx2.Auth`."""
    from agent_service.tools.mcp.transports import http_client, http_transport

    fetch = config.fetch
    destinations = Destinations(fetch.private, fetch.allow_ports, trusted=[server.url])
    headers = {key: value.get_secret_value() for key, value in server.headers.items()}

    def connect() -> Any:
        wire = vetted_transport(destinations, ssl.create_default_context(), MAX_CONNECTIONS)
        return http_client(wire, headers, auth, server.timeout)

    # Loading certificates and code is slow.
    client = await asyncio.to_thread(connect)
    async with http_transport(server.url, client, is_sse=server.transport == "sse") as streams:
        yield streams
