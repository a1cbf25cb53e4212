"""List tools and what is missing for them, and turn toolsets on and off."""

import argparse
from collections.abc import Mapping
from typing import Any

from hermes.agent.v1 import tool_catalog_pb2 as pb
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from services.cli.command import JSON_LIST, Command, Context, action, arg, flag
from services.cli.output import Column
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


async def _list(context: Context) -> None:
    """List tools, and what is missing for them."""
    found = await _tools(context, context.given.platform)
    context.print_list(found.tools, _COLUMNS, "There are no tools.")


async def _change(context: Context) -> None:
    given, settings = context.given, context.settings
    if given.platform:
        raise InvalidArgument(
            "--platform works only with list; to turn tools off on one platform, set "
            "tools.platforms with: hermes config edit"
        )
    found = await _tools(context)
    for name in given.toolsets:
        _check(name, found)
    before = _turned_off(settings.yaml.data)
    off = [name for name in before if name not in given.toolsets]
    if given.action == "disable":
        off = list(dict.fromkeys([*before, *given.toolsets]))
    path = keep(settings, DISABLED, f"[{', '.join(off)}]")
    told = f"{DISABLED} in {path} is now: {', '.join(off) or 'none'}. Restart Hermes to apply it."
    context.print_value({"key": DISABLED, "disabled": off}, told)


def _check(name: str, listed: pb.ListToolsResponse) -> None:
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


def _state(tool: pb.ToolInfo) -> str:
    if tool.enabled:
        elsewhere = ", ".join(sorted(tool.off_on_platforms))
        return f"on, but not on {elsewhere}" if elsewhere else "on"
    return (
        f"off: {tool.reason}" if tool.reason else f"off: set {' or '.join(tool.missing_settings)}"
    )


_PLATFORM = "list the tools for this platform, such as telegram or cli"
_COLUMNS = (
    Column("name", "tool"),
    Column("toolset", "toolset"),
    Column("", "state", _state),
    Column("enabled"),
    Column("missing_settings"),
    Column("reason", optional=True),
    Column("off_on_platforms"),
    Column("summary", "what it does"),
)
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
