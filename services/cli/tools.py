"""List the tools that the model has and what others lack, and turn toolsets on and off."""

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.agent.v1 import tool_catalog_pb2 as pb
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import catalog, load, logged
from services.cli.tables import print_table
from services.config import Settings
from services.config_edit import set_value
from services.config_paths import nearest, suggestion
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes tools                     which tools there are, and what is missing
  hermes tools list --json         the same for a program
  hermes tools --platform telegram    what messages from there have, and why not the rest
  hermes tools disable web vision  models are not offered these toolsets any more
  hermes tools enable web
  hermes tools --profile work disable terminal    in that profile

A setting that is missing is put into .env or config.yaml: hermes config set BRAVE_API_KEY ..."""

DISABLED = "tools.disabled"
_PLATFORM = "as messages from there have them, such as telegram or cli"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes tools`."""
    parser.add_argument("--json", action="store_true", help="as JSON")
    actions = Actions(parser, "list|enable|disable", required=False)
    parser.add_argument("--platform", metavar="NAME", default="", help=_PLATFORM)
    listing = actions.add("list", "the tools, and what is missing")
    listing.add_argument("--platform", metavar="NAME", default=argparse.SUPPRESS, help=_PLATFORM)
    on = actions.add("enable", "offer models toolsets again")
    off = actions.add("disable", "offer models toolsets no more")
    for changing in (on, off):
        changing.add_argument("toolsets", nargs="+", metavar="TOOLSET", help="its id")
    for action in (listing, on, off):
        action.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="as JSON"
        )


def run(arguments: argparse.Namespace) -> int:
    """Lists the tools, or turns toolsets on or off."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        listed = asyncio.run(_listed(settings, arguments.platform))
    if arguments.action in ("enable", "disable"):
        if arguments.platform:
            raise InvalidArgument(
                "--platform goes with list; what is off on one platform is tools.platforms: "
                "hermes config edit"
            )
        return _change(arguments, settings, listed)
    if arguments.json:
        print_json([_described(tool) for tool in listed.tools])
    else:
        rows = [_row(tool) for tool in listed.tools]
        print_table(("tool", "toolset", "state", "what it does"), rows)
    return 0


def _change(arguments: argparse.Namespace, settings: Settings, listed: pb.ListToolsResponse) -> int:
    names: Sequence[str] = arguments.toolsets
    for name in names:
        _check(name, listed)
    before = _turned_off(settings.yaml.data)
    off = [name for name in before if name not in names]
    if arguments.action == "disable":
        off = [*before, *dict.fromkeys(name for name in names if name not in before)]
    path = set_value(settings.home, DISABLED, f"[{', '.join(off)}]", catalog().models)
    if arguments.json:
        print_json({"key": DISABLED, "disabled": off})
    else:
        names_off = ", ".join(off) or "none"
        say(f"{DISABLED} in {path} is now: {names_off}. It holds from the next start on.")
    return 0


def _check(name: str, listed: pb.ListToolsResponse) -> None:
    """Refuse what is no toolset, with what may have been meant."""
    if name in listed.toolsets:
        return
    of_tool = {tool.name: tool.toolset for tool in listed.tools}
    if name in of_tool:
        raise InvalidArgument(f"{name} is a tool; its toolset is {of_tool[name]}")
    similar = suggestion(nearest(name, listed.toolsets))
    raise InvalidArgument(f"there is no toolset {name}{similar}")


def _turned_off(data: Mapping[str, Any]) -> list[str]:
    """What config.yaml turns off."""
    group: dict[str, Any] = data.get("tools") or {}
    names: list[Any] = group.get("disabled") or []
    return [str(name) for name in names]


async def _listed(settings: Settings, platform: str) -> pb.ListToolsResponse:
    async with connected(settings, ("agent",)) as channels:
        stub = ToolCatalogServiceStub(channels.to("agent"))
        request = pb.ListToolsRequest(profile=settings.profile, platform=platform)
        return await stub.ListTools(request)


def _row(tool: pb.ToolInfo) -> tuple[str, ...]:
    return (tool.name, tool.toolset, printable(_state(tool)), printable(tool.summary))


def _state(tool: pb.ToolInfo) -> str:
    if tool.enabled:
        elsewhere = ", ".join(sorted(tool.off_on_platforms))
        return f"on, but not on {elsewhere}" if elsewhere else "on"
    return f"off: {tool.reason}" if tool.reason else f"off: set {_either(tool)}"


def _either(tool: pb.ToolInfo) -> str:
    return " or ".join(tool.missing_settings)


def _described(tool: pb.ToolInfo) -> dict[str, object]:
    return {
        "name": tool.name,
        "toolset": tool.toolset,
        "enabled": tool.enabled,
        "missing_settings": list(tool.missing_settings),
        "reason": tool.reason or None,
        "off_on_platforms": dict(sorted(tool.off_on_platforms.items())),
        "summary": tool.summary,
    }
