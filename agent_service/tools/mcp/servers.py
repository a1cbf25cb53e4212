"""The MCP servers of a deployment: connected when first needed, their tools pinned by a hash."""

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

from agent_service.config.mcp import McpServer
from agent_service.records.mcp import (
    MAX_LISTED,
    MAX_LISTED_CHARS,
    NO_SERVERS,
    ServerCatalog,
    ServerTool,
    SessionServers,
    difference,
    offered_tools,
)
from agent_service.security.url_provenance import urls_in
from agent_service.tools.base import Effect, ToolContext, ToolFailed, ToolResult
from agent_service.tools.guards.approval import check_each_allowed
from agent_service.tools.guards.taint import Screen, fenced, sources, why_asked
from agent_service.tools.mcp import pins
from agent_service.tools.mcp.connections import Connections, Dial
from services.database import Database

if TYPE_CHECKING:
    from agent_service.tools.mcp.connection import ServerConnection

FIRST_LOOK_S = 20.0
"""How long a new session waits for servers whose tools are not known yet."""
_SHOWN_CHARS = 2_000


def is_installed() -> bool:
    """Whether the SDK is there."""
    return find_spec("mcp") is not None


class ServerState(Struct, frozen=True):
    """A server for people."""

    name: str
    catalog: ServerCatalog
    problem: str = ""
    """Why its tools are not offered."""
    is_known: bool = False
    """Whether its tools have been listed."""


class Servers:
    """Connections to servers, and what the profile's people agreed to."""

    def __init__(
        self,
        configured: Mapping[str, McpServer],
        dial: Dial,
        database: Database,
        screen: Screen,
        *,
        asks: bool = True,
    ) -> None:
        """`asks` requires approval of calls in tainted sessions that change something."""
        self.configured = {name: one for name, one in configured.items() if one.enabled}
        self._connections = Connections(self.configured, dial, screen.scanner)
        self.run, self.drain = self._connections.run, self._connections.drain
        self._database = database
        self._screen = screen
        self._asks = asks

    def problem_of(self, name: str) -> str:
        """Why a server cannot be used at all; empty if it can."""
        if not is_installed():
            return "hermes-services[mcp] is not installed"
        return self.configured[name].problem

    async def offer(self, profile: str) -> tuple[SessionServers, tuple[str, ...]]:
        """The tools of a new session, and notices about servers that are missing."""
        usable = [name for name in sorted(self.configured) if not self.problem_of(name)]
        if not usable:
            return NO_SERVERS, ()
        known = await self._catalogs(profile)
        notices: tuple[str, ...] = ()
        if unknown := [name for name in usable if name not in known]:
            notices = await self._look(profile, unknown)
            known = await self._catalogs(profile)
        catalogs = {name: known[name] for name in usable if name in known}
        tools = offered_tools(list(catalogs.values()))
        chars = sum(len(tool.description) + len(tool.parameters) for tool in tools)
        is_searched = len(tools) > MAX_LISTED or chars > MAX_LISTED_CHARS
        if is_searched:
            tools = tuple(replace(tool, description="", parameters="{}") for tool in tools)
        readable = tuple(name for name, one in catalogs.items() if one.has_resources)
        return SessionServers(tools, is_searched, readable), notices

    async def states(self, profile: str) -> Sequence[ServerState]:
        """Every server, for people."""
        known = await self._catalogs(profile)
        return [
            ServerState(
                name,
                known.get(name, ServerCatalog()),
                self.problem_of(name) or self._connections.failure(profile, name),
                is_known=name in known,
            )
            for name in sorted(self.configured)
        ]

    async def test(
        self, profile: str, name: str, *, accepts: bool = False
    ) -> tuple[ServerCatalog, ServerCatalog]:
        """Connect anew; return what was agreed to and what the server offers now, or ToolFailed.

        `accepts` agrees to what it offers now.
        """
        self._check(name)
        self._connections.close(profile, name)
        now = (await self._connections.get(profile, name)).catalog
        before = (await self._catalogs(profile)).get(name)
        if before is None or accepts:
            await self._pin(profile, name, now)
        return before or now, now

    async def call(
        self, tool: ServerTool, arguments: dict[str, Any], context: ToolContext, called: str = ""
    ) -> ToolResult:
        """Call a tool; its result is fenced, and taints the session.

        `called` is the name that the model called, if it is not the tool's.
        """
        from agent_service.tools.mcp.request_handlers import ToolRequestHandler
        from agent_service.tools.mcp.results import render_call

        called, said = called or tool.name, json.encode(arguments, order="sorted")
        text = said.decode(errors="replace")
        if await self._is_tainted(context) and (
            tool.effect != Effect.PURE
            or not tool.is_closed
            or await context.records.unknown_links(urls_in(text))
        ):
            await _check_call(called, f"{tool.name} {text}", context)
        connection = await self._agreed(tool.server, called, context)
        handler = ToolRequestHandler(tool.server, called, context)
        asked = connection.call_tool(tool.tool, arguments, handler)
        result = render_call(await self._answer(tool.server, asked, tool.effect, context))
        return await self._fenced(tool.server, result, context)

    async def read(self, server: str, uri: str, context: ToolContext) -> ToolResult:
        """Read a resource, or list those of a server if the URI is empty."""
        from agent_service.tools.mcp.request_handlers import ToolRequestHandler
        from agent_service.tools.mcp.results import render_resource, render_resources

        name = "read_mcp_resource"
        connection = await self._agreed(server, name, context)
        handler = ToolRequestHandler(server, name, context)
        is_checked = bool(uri) and await self._is_tainted(context)
        listed: Sequence[Any] = ()
        if is_checked or not uri:
            asked = connection.list_resources(handler)
            listed = await self._answer(server, asked, Effect.PURE, context)
        if is_checked and uri not in {str(getattr(one, "uri", "")) for one in listed}:
            # What the server does not list may carry data of the session to it.
            await _check_call(name, f"{name} {server} {uri}", context)
        if uri:
            asked = connection.read_resource(uri, handler)
            text = render_resource(await self._answer(server, asked, Effect.PURE, context))
        else:
            text = render_resources(listed)
        return await self._fenced(server, ToolResult(text), context)

    async def prompt(
        self, profile: str, server: str, name: str, arguments: Mapping[str, str]
    ) -> str:
        """The text of a prompt, without what looks like an attack."""
        self._check(server)
        connection = await self._connected(profile, server, None)
        from agent_service.tools.mcp.request_handlers import RefusingHandler
        from agent_service.tools.mcp.results import render_prompt

        asked = connection.get_prompt(name, dict(arguments), RefusingHandler())
        text = render_prompt(await self._answer(server, asked, Effect.PURE, None))
        clean, _ = await asyncio.to_thread(self._screen.scanner.clean, text)
        return clean

    async def find(self, profile: str, names: frozenset[str]) -> Sequence[ServerTool]:
        """The tools of these names with their descriptions."""
        known = await self._catalogs(profile)
        return [tool for tool in offered_tools(list(known.values())) if tool.name in names]

    def _check(self, name: str) -> None:
        if name not in self.configured:
            raise ToolFailed(f"There is no MCP server {name!r} in mcp_servers any more.")
        if problem := self.problem_of(name):
            raise ToolFailed(f"The MCP server {name} cannot be used: {problem}.")

    async def _agreed(self, name: str, tool: str, context: ToolContext) -> "ServerConnection":
        """A connection to a server whose tools are those that a person agreed to."""
        self._check(name)
        profile = context.caller.profile
        connection = await self._connected(profile, name, context)
        pinned = (await self._catalogs(profile)).get(name)
        if pinned is None:
            await self._pin(profile, name, connection.catalog)
        elif (digest := connection.catalog.digest) != pinned.digest:
            subject = (
                f"The tools of the MCP server {name} have changed. Approve them if you trust it.\n"
                f"{difference(pinned, connection.catalog, _SHOWN_CHARS)}"
            )
            await check_each_allowed(tool, subject, digest, context)
            await self._pin(profile, name, connection.catalog)
        return connection

    async def _connected(
        self, profile: str, name: str, context: ToolContext | None
    ) -> "ServerConnection":
        try:
            return await self._connections.get(profile, name)
        except ToolFailed as error:
            raise ToolFailed(await self._quoted(name, str(error), context)) from error

    async def _answer(
        self, name: str, asked: Awaitable[Any], effect: str, context: ToolContext | None
    ) -> Any:
        from agent_service.tools.mcp.connection import ServerFailed

        try:
            return await asked
        except ServerFailed as error:
            text = await self._quoted(name, f"The MCP server {name} failed: {error}.", context)
            if effect == Effect.UNSAFE:
                text += "\nIt is unknown whether the call took effect."
            raise ToolFailed(text) from error

    async def _quoted(self, name: str, failure: str, context: ToolContext | None) -> str:
        """A failure, fenced because the server chose its words; taints the call's session."""
        source = f"the MCP server {name}"
        if context is not None:
            return (await self._screen.fenced(failure, source, context)).text
        clean, _ = await asyncio.to_thread(self._screen.scanner.clean, failure)
        return fenced(clean, source)

    async def _is_tainted(self, context: ToolContext) -> bool:
        return self._asks and bool(await sources(context.state))

    async def _fenced(self, name: str, result: ToolResult, context: ToolContext) -> ToolResult:
        shown = await self._screen.fenced(result.text, f"the MCP server {name}", context)
        await context.records.add_links(result.text)
        return replace(shown, is_error=result.is_error, pictures=result.pictures)

    async def _look(self, profile: str, names: Sequence[str]) -> tuple[str, ...]:
        """List the tools of servers for the first time; return notices about those that fail."""
        tasks = {
            self._connections.workers.start(
                f"first look at the MCP server {name}", self._learn(profile, name)
            ): name
            for name in names
        }
        # A server that could not be reached the last time is not waited for.
        failures = {name: self._connections.failure(profile, name) for name in names}
        if fresh := [task for task, name in tasks.items() if not failures[name]]:
            await asyncio.wait(fresh, timeout=FIRST_LOOK_S)
        starting = "it is still starting; new sessions have its tools"
        problems = {
            name: task.result() if task.done() else failures[name] or starting
            for task, name in tasks.items()
        }
        return tuple(
            f"The tools of the MCP server {name} are missing: {problem}"
            for name, problem in problems.items()
            if problem
        )

    async def _learn(self, profile: str, name: str) -> str:
        """Pin what a server offers; return why that was impossible."""
        try:
            await self._pin(profile, name, (await self._connections.get(profile, name)).catalog)
        except ToolFailed as error:
            return str(error)
        return ""

    async def _catalogs(self, profile: str) -> Mapping[str, ServerCatalog]:
        return await self._database.read(lambda conn: pins.all_of(conn, profile))

    async def _pin(self, profile: str, name: str, catalog: ServerCatalog) -> None:
        await self._database.write(lambda conn: pins.put(conn, profile, name, catalog))


async def _check_call(called: str, subject: str, context: ToolContext) -> None:
    """Raise DecisionRequired unless a person has approved exactly this call."""
    binding = hashlib.sha256(subject.encode()).hexdigest()
    shown = subject[:_SHOWN_CHARS] + await why_asked(context)
    await check_each_allowed(called, shown, binding, context)
