"""Connects the agent to MCP servers."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

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
from services.config.settings import Settings
from services.database import Database
from services.runtime.config import ServiceConfig

_SHOWN_CHARS = 500
MAX_CONNECTIONS = 32
"""To one server; a call may keep its connection for minutes."""


def mcp_servers(
    settings: Settings,
    config: AgentConfig,
    executors: Executors,
    database: Database,
    screen: Screen,
    tools: Sequence[Tool[Any]],
) -> tuple[Servers, frozenset[str]]:
    """The configured servers, not connected yet, and the toolsets of all tools with theirs."""
    processes = Processes(executors, settings.load(ServiceConfig).instance)
    dialer = Dialer(config, processes, login_store(settings, config, database))
    asks = config.fetch.taint == "ask"
    servers = Servers(config.mcp_servers, dialer.dial, database, screen, asks=asks)
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

            def told(why: str) -> None:
                last = process.error_text[-_SHOWN_CHARS:]
                ended(f"{why}; its last errors: {last}" if last else why)

            async with program_transport(process, told) as streams:
                yield streams

    @asynccontextmanager
    async def _http(self, name: str, server: McpServer) -> AsyncGenerator[Any]:
        from agent_service.tools.mcp.oauth import StoredLogin

        auth = None
        if server.auth == "oauth":
            auth = StoredLogin(name, server.url, self._logins, SystemClock())
        async with http_streams(self._config, server, auth) as streams:
            yield streams


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
