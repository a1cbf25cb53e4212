"""List the tools that the model has, and what others lack."""

import argparse
import asyncio

from hermes.agent.v1 import tool_catalog_pb2 as pb
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from services.cli.arguments import add_home
from services.cli.connection import connected
from services.cli.console import print_json, printable
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings

EXAMPLES = """\
examples:
  hermes tools           which tools there are, and what is missing
  hermes tools --json    the same for a program

A setting that is missing is put into .env or config.yaml: hermes config set BRAVE_API_KEY ..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes tools`."""
    add_home(parser)
    parser.add_argument("--json", action="store_true", help="one JSON list")


def run(arguments: argparse.Namespace) -> int:
    """Lists the tools."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        tools = asyncio.run(_tools(settings))
    if arguments.json:
        print_json([_described(tool) for tool in tools])
    else:
        print_table(("tool", "toolset", "state", "what it does"), [_row(tool) for tool in tools])
    return 0


async def _tools(settings: Settings) -> list[pb.ToolInfo]:
    async with connected(settings, ("agent",)) as channels:
        stub = ToolCatalogServiceStub(channels.to("agent"))
        return list((await stub.ListTools(pb.ListToolsRequest())).tools)


def _row(tool: pb.ToolInfo) -> tuple[str, ...]:
    return (tool.name, tool.toolset, printable(_state(tool)), printable(tool.summary))


def _state(tool: pb.ToolInfo) -> str:
    if tool.enabled:
        return "on"
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
        "summary": tool.summary,
    }
