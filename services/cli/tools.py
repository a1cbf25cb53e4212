"""List tools and what is missing for them, and turn toolsets on and off."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.agent.v1 import tool_catalog_pb2 as pb
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from services.cli.command import JSON_LIST, Command, Context, action, arg, flag
from services.cli.console import printable, say, wrap
from services.cli.output import print_json
from services.cli.startup import keep
from services.config.paths import nearest, suggestion
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes tools                     which tools there are, and what is missing
  hermes tools list --json         the same for a program
  hermes tools --platform telegram    what messages from there have, and why not the rest
  hermes tools disable web vision  models are not offered these toolsets any more
  hermes tools enable web
  hermes tools --profile work disable terminal    in that profile

Add a missing setting with: hermes config set BRAVE_API_KEY ..."""

DISABLED = "tools.disabled"
WIDTH = 100
"""How wide the list is at most on a terminal."""
_PACKAGE = re.compile(r"hermes-services\[[\w-]+\]")
_NO_SERVERS = "no MCP server is added; type: hermes mcp add NAME --command PROGRAM (or --url URL)"
_FLAGS = ("tools.rl",)
_MORE = {"browser": "make the template with make browser-image (docs/browser.md)"}
"""What a setting of a toolset does not give by itself."""


async def _list(context: Context) -> None:
    """List tools, and what is missing for them."""
    found = await _tools(context, context.given.platform)
    if context.given.json:
        print_json(found.tools)
    else:
        say(wrap(printable("\n".join(_lines(found))), sys.stdout, WIDTH))


def _lines(found: pb.ListToolsResponse) -> Iterator[str]:
    """Yield a line for each tool that is on, and for each tool or toolset that is off."""
    for tool in found.tools:
        if tool.enabled:
            elsewhere = ", ".join(sorted(tool.off_on_platforms))
            yield f"{tool.name:<20}  {tool.summary}{elsewhere and f' Not on {elsewhere}.'}"
    off = [tool for tool in found.tools if not tool.enabled]
    lacks = {"mcp": _NO_SERVERS} if "mcp" not in {tool.toolset for tool in found.tools} else {}
    for tool in off:
        family = [other for other in found.tools if other.toolset == tool.toolset]
        is_whole = len({(other.enabled, _lack(other)) for other in family}) == 1
        lacks[tool.toolset if is_whole and tool.toolset != "mcp" else tool.name] = _lack(tool)
    if lacks:
        yield "\nNot offered to models:"
    yield from (f"{name:<20}  {lack}" for name, lack in lacks.items())


def _lack(tool: pb.ToolInfo) -> str:
    """Return what a tool that is off lacks, and what to type to get it."""
    if tool.missing_settings:
        first, *others = tool.missing_settings
        either = f" (or {', '.join(others)} likewise)" if others else ""
        value = "true" if first in _FLAGS else "VALUE"
        more = f"; {_MORE[tool.toolset]}" if tool.toolset in _MORE else ""
        return f"{first} is not set{either}; type: hermes config set {first} {value}{more}"
    if package := _PACKAGE.search(tool.reason):
        return f"{tool.reason}; type: pip install '{package[0]}'"
    if tool.reason == "turned off":
        return f"turned off; type: hermes tools enable {tool.toolset}"
    return tool.reason


async def _change(context: Context) -> None:
    given, settings = context.given, context.settings
    if given.platform:
        raise InvalidArgument(
            "--platform works only with list; to turn tools off on one platform, set "
            "tools.platforms with: hermes config edit"
        )
    found = await _tools(context)
    for name in given.toolsets:
        check_toolset(name, found)
    before = _turned_off(settings.yaml.data)
    off = [name for name in before if name not in given.toolsets]
    if given.action == "disable":
        off = list(dict.fromkeys([*before, *given.toolsets]))
    path = keep(settings, DISABLED, f"[{', '.join(off)}]")
    text = f"{DISABLED} in {path} is now: {', '.join(off) or 'none'}. Restart Hermes to apply it."
    context.print_value({"key": DISABLED, "disabled": off}, text)


def check_toolset(name: str, listed: pb.ListToolsResponse) -> None:
    """Reject a toolset that does not exist."""
    if name in listed.toolsets:
        return
    of_tool = {tool.name: tool.toolset for tool in listed.tools}
    if name in of_tool:
        raise InvalidArgument(f"{name} is a tool; use its toolset {of_tool[name]}")
    similar = suggestion(nearest(name, listed.toolsets))
    raise InvalidArgument(f"there is no toolset {name}{similar}")


def _turned_off(data: Mapping[str, Any]) -> list[str]:
    group: dict[str, Any] = data.get("tools") or {}
    names: list[Any] = group.get("disabled") or []
    return [str(name) for name in names]


async def _tools(context: Context, platform: str = "") -> pb.ListToolsResponse:
    request = pb.ListToolsRequest(profile=context.settings.profile, platform=platform)
    return await context.stub(ToolCatalogServiceStub).ListTools(request)


_PLATFORM = "list the tools for this platform, such as telegram or cli"
_JSON = flag("--json", "print a JSON list", default=argparse.SUPPRESS)
_CHANGED = (arg("TOOLSET+", "name of the toolset", field="toolsets"), _JSON)
COMMAND = Command(
    EXAMPLES,
    (
        action(_list, arg("--platform NAME", _PLATFORM, default=argparse.SUPPRESS), _JSON),
        action(_change, *_CHANGED, name="enable", help="Turn toolsets on."),
        action(_change, *_CHANGED, name="disable", help="Turn toolsets off."),
    ),
    function=_list,
    arguments=(JSON_LIST, arg("--platform NAME", _PLATFORM, default="")),
    services=("agent",),
)
