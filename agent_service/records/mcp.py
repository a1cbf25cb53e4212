"""Tools, prompts and resources of MCP servers, as sessions and the database keep them."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct, json

LOGINS = "mcp_servers"
"""The part of the login document with the logins at servers."""
MAX_LISTED = 40
"""More tools than this are searched for instead of listed."""


class ServerTool(Struct, frozen=True, omit_defaults=True):
    """A tool of an MCP server as models see it."""

    server: str
    tool: str
    """Its name at the server."""
    name: str
    """The name that models call."""
    effect: str
    """A value of `Effect`, by the server's annotations."""
    description: str = ""
    parameters: str = "{}"
    """JSON schema of the arguments."""


class PromptArgument(Struct, frozen=True, omit_defaults=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class ServerPrompt(Struct, frozen=True, omit_defaults=True):
    """A prompt that a server offers to people."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerCatalog(Struct, frozen=True, omit_defaults=True):
    """What a server offers; stored once a person trusts it."""

    tools: tuple[ServerTool, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    has_resources: bool = False

    @property
    def digest(self) -> str:
        """The hash that stays the same while names, schemas, descriptions and effects do."""
        tools = sorted(self.tools, key=lambda tool: tool.tool)
        return hashlib.sha256(json.encode(tools)).hexdigest()


class SessionServers(Struct, frozen=True, omit_defaults=True):
    """The tools of servers that a session began with; its requests show them for good."""

    tools: tuple[ServerTool, ...] = ()
    """By name; if there are too many to list, without descriptions and parameters."""
    is_searched: bool = False
    """Whether models search the tools instead of seeing them."""
    readable: tuple[str, ...] = ()
    """Servers with resources."""


NO_SERVERS = SessionServers()


def offered_tools(catalogs: Sequence[ServerCatalog]) -> tuple[ServerTool, ...]:
    """All tools in the order of their names."""
    tools = {tool.name: tool for catalog in catalogs for tool in catalog.tools}
    return tuple(tools[name] for name in sorted(tools))


def difference(before: ServerCatalog, after: ServerCatalog) -> str:
    """What has changed, for a person."""
    old = {tool.tool: tool for tool in before.tools}
    new = {tool.tool: tool for tool in after.tools}
    lines = [f"removed: {name}" for name in sorted(old.keys() - new.keys())]
    for name in sorted(new):
        if name not in old:
            lines.append(f"new: {name}: {_short(new[name].description)}")
        elif new[name].description != old[name].description:
            was, now = _short(old[name].description), _short(new[name].description)
            lines += [f"changed: {name}", f"  was: {was}", f"  now: {now}"]
        elif new[name] != old[name]:
            lines.append(f"changed: {name} (its arguments or annotations)")
    return "\n".join(lines)


def _short(text: str, most: int = 600) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[:most]}…"
