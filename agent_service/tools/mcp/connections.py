"""The open connections to MCP servers, by profile."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from msgspec import json
from msgspec.structs import replace

from agent_service.config.mcp import McpServer
from agent_service.records.mcp import ServerCatalog, ServerTool
from agent_service.security.threats import ThreatScanner
from agent_service.tools.base import ToolFailed
from services.errors import Draining
from services.lifecycle import Workers
from services.rpc import deadlines

if TYPE_CHECKING:
    from agent_service.tools.mcp.connection import ServerConnection

RESTART_S = 60.0
"""A server that was lost is connected to again after this time at the earliest."""
IDLE_S = 900.0
"""A connection that nobody has used for this time is closed."""
MOST_IDLE = 8
"""Others are closed as soon as they may be started again: each program has a sandbox."""
MAX_SCHEMA_CHARS = 20_000
ANY_ARGUMENTS = '{"type":"object"}'
"""Stands for a schema that is longer, or looks like an attack."""

Key = tuple[str, str]
"""Profile and server."""
Dial = Callable[
    [str, str, McpServer], Callable[[Callable[[str], None]], AbstractAsyncContextManager[Any]]
]


def load_sdk() -> Sequence[object]:
    """Import what takes a second; run in a thread."""
    from agent_service.tools.mcp.connection import ServerConnection
    from agent_service.tools.mcp.oauth import StoredLogin
    from agent_service.tools.mcp.request_handlers import ToolRequestHandler
    from agent_service.tools.mcp.results import render_call
    from agent_service.tools.mcp.transports import program_transport

    return ServerConnection, ToolRequestHandler, StoredLogin, render_call, program_transport


class Connections:
    """Opens connections when they are needed, and closes those that nobody uses."""

    def __init__(
        self, configured: Mapping[str, McpServer], dial: Dial, scanner: ThreatScanner
    ) -> None:
        self._configured = configured
        self._dial = dial
        self._scanner = scanner
        self.workers = Workers()
        self._known: dict[Key, ServerConnection] = {}
        self._locks: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, profile: str, name: str) -> "ServerConnection":
        """Return an open connection; ToolFailed if there is none."""
        await asyncio.to_thread(load_sdk)
        from agent_service.tools.mcp.connection import ServerConnection, ServerFailed

        key = (profile, name)
        async with self._locks[key]:
            found = self._known.get(key)
            try:
                if found is None or found.is_closed:
                    self._check_restart(name, found)
                    server = self._configured[name]
                    dial = self._dial(profile, name, server)
                    found = ServerConnection(name, server, dial, self._screened)
                    self._known[key] = found
                    self.workers.start(f"MCP server {name}", found.run())
                await found.opened()
                await found.refresh()
                found.last_used = asyncio.get_running_loop().time()
            except (ServerFailed, Draining) as error:
                raise ToolFailed(f"The MCP server {name} is not there: {error}.") from error
            return found

    def _check_restart(self, name: str, lost: "ServerConnection | None") -> None:
        """Raise ToolFailed if a server was started a moment ago."""
        if lost is None or not lost.failure:
            return
        wait_s = lost.started_at + RESTART_S - asyncio.get_running_loop().time()
        if wait_s > 0:
            raise ToolFailed(
                f"The MCP server {name} is not there: {lost.failure}. It can be tried again in "
                f"{wait_s:.0f} s."
            )

    def close(self, profile: str, name: str) -> None:
        """Close a connection, so that the next one is new."""
        if (old := self._known.pop((profile, name), None)) is not None:
            old.close()

    async def run(self) -> None:
        """Close connections that nobody uses, and all of them when cancelled."""
        async with self.workers:
            while True:
                await asyncio.sleep(RESTART_S)
                for connection in unneeded(self._known.values(), asyncio.get_running_loop().time()):
                    connection.close()

    async def drain(self) -> None:
        """Close all connections while executors still answer, which ends their programs."""
        for connection in self._known.values():
            connection.close()
        await self.workers.drain(deadlines.DRAIN_S)

    def failure(self, profile: str, name: str) -> str:
        """Return why a server was lost; empty if it was not."""
        found = self._known.get((profile, name))
        return "" if found is None else found.failure

    async def _screened(self, catalog: ServerCatalog) -> ServerCatalog:
        return await asyncio.to_thread(screened, catalog, self._scanner)


def unneeded(connections: Iterable["ServerConnection"], now: float) -> list["ServerConnection"]:
    """Return the connections to close: those that nobody has used for long, and idle ones too many.

    `now` is a time of the event loop.
    """
    idle = [each for each in connections if each.is_idle and not each.is_closed]
    idle.sort(key=lambda each: each.last_used, reverse=True)
    return [
        each
        for place, each in enumerate(idle)
        if now - each.last_used > (IDLE_S if place < MOST_IDLE else RESTART_S)
    ]


def screened(catalog: ServerCatalog, scanner: ThreatScanner) -> ServerCatalog:
    """The catalog without texts that look like an attack, and without endless schemas."""

    def changed(tool: ServerTool) -> ServerTool:
        schema = tool.parameters
        words = "\n".join(_words(json.decode(schema)))
        if len(schema) > MAX_SCHEMA_CHARS or scanner.clean(words)[1]:
            schema = ANY_ARGUMENTS
        return replace(tool, description=scanner.clean(tool.description)[0], parameters=schema)

    return replace(catalog, tools=tuple(map(changed, catalog.tools)))


def _words(schema: Any) -> Iterator[str]:
    """All names and texts in a schema."""
    if isinstance(schema, dict):
        for name, value in cast("dict[str, Any]", schema).items():
            yield name
            yield from _words(value)
    elif isinstance(schema, list):
        for value in cast("list[Any]", schema):
            yield from _words(value)
    elif isinstance(schema, str):
        yield schema
