"""The tools that models call: those of servers, and a search if there are too many to list."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import json
from pydantic import Field, model_validator

from agent_service.records.mcp import ServerTool, SessionServers
from agent_service.tools.base import (
    DescribedTool,
    Effect,
    RetryWithHint,
    Tool,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.mcp.servers import Servers
from agent_service.tools.schema import Listed

MAX_DESCRIPTION_CHARS = 2_000
_WORD = re.compile(r"[a-z0-9]+")
_NAME_WEIGHT = 3


class ServerArguments(ToolArguments):
    """Any arguments; the server checks them."""

    values: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _as_they_are(cls, given: Any) -> Any:
        return {"values": given}


class ServerToolCall(DescribedTool[ServerArguments]):
    """A tool of a server."""

    toolset = "mcp"
    arguments = ServerArguments

    def __init__(self, tool: ServerTool, servers: Servers) -> None:
        self.name = tool.name
        self.description = tool.description[:MAX_DESCRIPTION_CHARS] or tool.tool
        self.parameters = tool.parameters
        self._tool = tool
        self._servers = servers

    def effect(self, arguments: ServerArguments) -> Effect:
        return Effect(self._tool.effect)

    def writes(self, arguments: ServerArguments) -> frozenset[str]:
        """Calls that change something at one server run in the model's order."""
        return _writes(self._tool)

    async def run(self, arguments: ServerArguments, context: ToolContext) -> ToolResult:
        return await self._servers.call(self._tool, arguments.values, context)


class ToolSearchArguments(ToolArguments):
    """Searches the tools of MCP servers by words; call one that it finds with tool_call."""

    query: str = Field(min_length=1, max_length=500, description="What the tool should do.")
    limit: int = Field(default=5, ge=1, le=20, description="Maximum number of tools.")


class ToolSearch(DescribedTool[ToolSearchArguments]):
    """Finds tools of servers."""

    name = "tool_search"
    toolset = "mcp"
    arguments = ToolSearchArguments
    usual_effect = Effect.PURE

    def __init__(self, offered: SessionServers, servers: Servers) -> None:
        counts = Counter(tool.server for tool in offered.tools)
        listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
        self.description = (
            "Searches the tools of MCP servers, and returns their names, descriptions and "
            f"parameters for tool_call. The servers and how many tools they have: {listed}."
        )
        schema = ToolSearchArguments.model_json_schema()
        self.parameters = json.encode(
            {k: schema[k] for k in ("type", "properties", "required")}
        ).decode()
        self._names = frozenset(tool.name for tool in offered.tools)
        self._servers = servers

    async def run(self, arguments: ToolSearchArguments, context: ToolContext) -> ToolResult:
        tools = await self._servers.find(context.caller.profile, self._names)
        found = best(tools, arguments.query)[: arguments.limit]
        most = MAX_DESCRIPTION_CHARS
        shown = [
            f"{tool.name}: {tool.description[:most]}\nparameters: {tool.parameters}"
            for tool in found
        ]
        return ToolResult("\n\n".join(shown) or "No tool matches. Try other words.")


def best(tools: Sequence[ServerTool], query: str) -> list[ServerTool]:
    """The tools that match words of a query, best first."""
    wanted = set(_WORD.findall(query.lower()))

    def score(tool: ServerTool) -> float:
        name = set(_WORD.findall(f"{tool.server} {tool.tool}".lower().replace("_", " ")))
        about = set(_WORD.findall(tool.description.lower()))
        return _NAME_WEIGHT * len(wanted & name) + len(wanted & about)

    scored = [(score(tool), tool) for tool in tools]
    return [tool for rank, tool in sorted(scored, key=lambda one: (-one[0], one[1].name)) if rank]


class ToolCallArguments(ToolArguments):
    """Calls a tool of an MCP server that tool_search has found."""

    name: str = Field(min_length=1, description="The tool's name.")
    arguments: dict[str, Any] = Field(default={}, description="The tool's own arguments.")


class ToolCall(UsualTool[ToolCallArguments]):
    """Calls tools of servers that are not listed."""

    name = "tool_call"
    toolset = "mcp"
    arguments = ToolCallArguments

    def __init__(self, offered: SessionServers, servers: Servers) -> None:
        self._tools = {tool.name: tool for tool in offered.tools}
        self._servers = servers

    def effect(self, arguments: ToolCallArguments) -> Effect:
        tool = self._tools.get(arguments.name)
        return Effect.PURE if tool is None else Effect(tool.effect)

    def writes(self, arguments: ToolCallArguments) -> frozenset[str]:
        tool = self._tools.get(arguments.name)
        return frozenset() if tool is None else _writes(tool)

    async def run(self, arguments: ToolCallArguments, context: ToolContext) -> ToolResult:
        if (tool := self._tools.get(arguments.name)) is None:
            raise RetryWithHint(
                f"There is no tool {arguments.name!r}. Use tool_search to find one."
            )
        return await self._servers.call(tool, arguments.arguments, context, self.name)


class ReadResourceArguments(ToolArguments):
    """Reads a resource of an MCP server, or lists the resources that it has."""

    server: str = Field(description="The server's name.")
    uri: str = Field(default="", description="The resource; leave it out to list all of them.")


class ReadResource(UsualTool[ReadResourceArguments]):
    """Reads resources of servers."""

    name = "read_mcp_resource"
    toolset = "mcp"
    arguments = ReadResourceArguments
    usual_effect = Effect.PURE

    def __init__(self, offered: SessionServers, servers: Servers) -> None:
        self._readable = offered.readable
        self._servers = servers

    async def run(self, arguments: ReadResourceArguments, context: ToolContext) -> ToolResult:
        if arguments.server not in self._readable:
            raise RetryWithHint(f"Servers with resources: {', '.join(self._readable)}.")
        return await self._servers.read(arguments.server, arguments.uri, context)


def session_tools(servers: Servers) -> Callable[[SessionServers], Sequence[Tool[Any]]]:
    """Makes the tools of a session from what it began with."""

    def made(offered: SessionServers) -> Sequence[Tool[Any]]:
        tools: list[Tool[Any]] = []
        if offered.is_searched:
            tools = [ToolSearch(offered, servers), ToolCall(offered, servers)]
        else:
            tools = [ServerToolCall(tool, servers) for tool in offered.tools]
        if offered.readable:
            tools.append(ReadResource(offered, servers))
        return tools

    return made


class _Unlisted(DescribedTool[ServerArguments]):
    """Stands for the tools of a server that are not known."""

    toolset = "mcp"
    arguments = ServerArguments
    parameters = "{}"

    def __init__(self, server: str) -> None:
        self.name = f"mcp_{server}_*"
        self.description = f"The tools of the MCP server {server}."

    async def run(self, arguments: ServerArguments, context: ToolContext) -> ToolResult:
        raise ToolFailed("This tool is not known.")


async def listed_servers(servers: Servers, profile: str) -> Sequence[Listed]:
    """The tools of every server for people, and what is missing for them."""
    listed: list[Listed] = []
    for state in await servers.states(profile):
        reason = state.problem
        if not reason and not state.is_known:
            reason = f"not connected yet; try hermes mcp test {state.name}"
        tools: Sequence[Tool[Any]] = [ServerToolCall(tool, servers) for tool in state.catalog.tools]
        listed += [Listed(tool, reason=reason) for tool in tools or [_Unlisted(state.name)]]
    return listed


def _writes(tool: ServerTool) -> frozenset[str]:
    return frozenset() if tool.effect == Effect.PURE else frozenset({f"MCP server {tool.server}"})
