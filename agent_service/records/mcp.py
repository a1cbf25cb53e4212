"""Tools, prompts and resources of MCP servers, as sessions and the database keep them."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct, json

LOGINS = "mcp_servers"
"""The part of the login document with the logins at servers."""
MAX_LISTED = 40
"""More tools than this are searched for instead of listed."""
MAX_LISTED_CHARS = 100_000
"""So are tools with longer descriptions and schemas in all."""

_NAME_CHARS = 100
_CHANGE_CHARS = 300
_CONTEXT_CHARS = 40


class ServerTool(Struct, frozen=True, omit_defaults=True):
    """A tool of an MCP server as models see it."""

    server: str
    tool: str
    name: str
    """The name that models call."""
    effect: str
    """A value of `Effect`, by the server's annotations."""
    description: str = ""
    parameters: str = "{}"
    is_closed: bool = False
    """Whether the server says that it passes nothing on to others."""


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


def difference(before: ServerCatalog, after: ServerCatalog, most_chars: int = 0) -> str:
    """What has changed, for a person, up to a length that is not 0."""
    old = {tool.tool: tool for tool in before.tools}
    new = {tool.tool: tool for tool in after.tools}
    changes = [_change(old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    changes = list(filter(None, changes))
    shown = len(changes)
    while most_chars and shown > 1 and sum(map(len, changes[:shown])) > most_chars:
        shown -= 1
    more = len(changes) - shown
    return "\n".join(changes[:shown] + ([f"… {more} more"] if more else []))


def _change(was: ServerTool | None, now: ServerTool | None) -> str:
    """What differs between two versions of a tool; empty if nothing does."""
    if was is None or now is None:
        tool = was or now
        assert tool is not None, "one of them is there"
        name = _line(tool.tool, _NAME_CHARS)
        about = _line(tool.description, _CHANGE_CHARS)
        return f"new: {name} ({_effect(tool)}): {about}" if was is None else f"removed: {name}"
    lines = [f"changed: {_line(now.tool, _NAME_CHARS)}"]
    for what, first, second in (
        ("effect", _effect(was), _effect(now)),
        ("description", was.description, now.description),
        ("arguments", was.parameters, now.parameters),
    ):
        if first != second:
            pairs = enumerate(zip(first, second, strict=False))
            same = next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))
            same = max(0, same - _CONTEXT_CHARS)
            cut = "…" if same else ""
            lines += [
                f"  {what} was: {cut}{_line(first[same:], _CHANGE_CHARS)}",
                f"  {what} now: {cut}{_line(second[same:], _CHANGE_CHARS)}",
            ]
    return "\n".join(lines) if len(lines) > 1 else ""


def _effect(tool: ServerTool) -> str:
    return f"{tool.effect}{'' if tool.is_closed else ', may reach others'}"


def _line(text: str, most: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[:most]}…"
