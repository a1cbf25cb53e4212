"""Add, list, test and remove MCP servers, whose tools models may call; serve Hermes itself."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.agent.v1 import mcp_pb2 as pb
from hermes.agent.v1.mcp_pb2_grpc import McpServiceStub
from services.amounts import plural
from services.cli.admin.mcp_server import SERVE
from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    YES,
    Argument,
    Command,
    Context,
    action,
    arg,
    flag,
)
from services.cli.output import Column
from services.cli.startup import keep
from services.config.edit import remove_path
from services.config.settings import is_secret_name
from services.errors import AlreadyExists, InvalidArgument, NotFound

EXAMPLES = """\
examples:
  hermes mcp list
  hermes mcp add time --command "python3 -m mcp_server_time"
  hermes mcp add search --command "npx -y search-mcp" --host "*" --secret SEARCH_TOKEN
  hermes mcp add docs --url https://docs.example.com/mcp
  hermes mcp add notes --url https://notes.example.com/mcp --oauth
  hermes mcp test time                 connect now, and list its tools
  hermes mcp test time --accept        and agree to tools that have changed
  hermes mcp remove time
  hermes mcp serve --tier operate      serve Hermes itself to another agent

A command runs in a sandbox of its own, which reaches only the hosts that you list. A server
behind a URL runs elsewhere. Hermes connects when a session first needs the tools."""

SECTION = "mcp_servers"
_TEST_S = 120.0


async def _list(context: Context) -> None:
    """List servers, and what is missing for them."""
    request = context.request(pb.ListMcpServersRequest)
    found = (await context.stub(McpServiceStub).ListMcpServers(request)).servers
    context.print_list(found, _COLUMNS, "There are no MCP servers; add one with hermes mcp add.")


async def _add(context: Context) -> None:
    """Add a server to config.yaml."""
    given, settings = context.given, context.settings
    if given.name in _configured(settings.yaml.data):
        raise AlreadyExists(f"there is an MCP server {given.name} already; remove it first")
    entry = _entry(given)
    path = keep(settings, f"{SECTION}.{given.name}", json.dumps(entry))
    told = (
        f"{given.name} is in {path}. Restart Hermes to apply it, then try: "
        f"hermes mcp test {given.name}"
    )
    context.print_value({"name": given.name, "server": entry, "file": str(path)}, told)


def _entry(given: Any) -> dict[str, Any]:
    try:
        command = shlex.split(given.command)
    except ValueError as error:
        raise InvalidArgument(f"--command cannot be read: {error}") from None
    if bool(command) == bool(given.url):
        raise InvalidArgument("give either --command or --url")
    entry: dict[str, Any] = {}
    if command:
        entry = {"command": command[0], "args": command[1:]}
        entry |= {"env": _pairs(given.env, "=", "--env")} if given.env else {}
        lists = {"hosts": given.hosts, "secrets": given.secrets}
        entry |= {name: value for name, value in lists.items() if value}
    else:
        entry = {"url": given.url}
        entry |= {"transport": "sse"} if given.sse else {}
        entry |= {"headers": _pairs(given.headers, ":", "--header")} if given.headers else {}
        entry |= {"auth": "oauth"} if given.oauth else {}
    return entry


def _pairs(given: Sequence[str], sign: str, option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        name, found, value = text.partition(sign)
        if not found or not name.strip():
            raise InvalidArgument(f"{option} wants NAME{sign}VALUE")
        if sign == "=" and is_secret_name(name):
            raise InvalidArgument(
                f"{name} looks like a secret, which a sandbox must not hold: put it into "
                f"executor.secrets, and give --secret {name}"
            )
        pairs[name.strip()] = value.strip()
    return pairs


async def _test(context: Context) -> None:
    """Connect to a server now, and list what it offers."""
    given = context.given
    request = context.request(pb.TestMcpServerRequest, accept_changes=given.accept)
    answer = await context.stub(McpServiceStub).TestMcpServer(request, timeout=_TEST_S)
    server = answer.server
    lines = [f"{server.name} answers. {_offers(server)}", *(f"  {name}" for name in server.tools)]
    if answer.changes:
        told = "You have agreed to these changes:" if given.accept else "These tools changed:"
        lines += [told, answer.changes]
    value = {
        "name": server.name,
        "tools": list(server.tools),
        "prompts": list(server.prompts),
        "has_resources": server.has_resources,
        "changes": answer.changes,
    }
    context.print_value(value, "\n".join(lines))


async def _remove(context: Context) -> None:
    """Remove a server from config.yaml."""
    given, settings = context.given, context.settings
    if given.name not in _configured(settings.yaml.data):
        raise NotFound(f"there is no MCP server {given.name} in {settings.home.config}")
    await context.confirm(
        f"Remove the MCP server {given.name}?", "add --yes to remove it", "nothing was removed"
    )
    path = remove_path(settings.home, (SECTION, given.name))
    told = f"{given.name} is no longer in {path}. Restart Hermes to apply it."
    context.print_value({"name": given.name, "file": str(path)}, told)


def _configured(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return data.get(SECTION) or {}


def _offers(server: pb.McpServer) -> str:
    offers = [plural(len(server.tools), "tool"), plural(len(server.prompts), "prompt")]
    return f"It offers {', '.join(offers)}{' and resources' if server.has_resources else ''}."


def _state(server: pb.McpServer) -> str:
    return f"off: {server.problem}" if server.problem else "on"


_COLUMNS = (
    Column("name", "server"),
    Column("", "state", _state),
    Column("", "offers", _offers),
    Column("target", "what it is"),
    Column("problem"),
    Column("tools"),
    Column("prompts"),
    Column("has_resources"),
)
_NAME = arg("NAME", "name of the server")


def _several(form: str, meaning: str, name: str) -> Argument:
    return arg(form, meaning, field=name, action="append", default=[])


_ADDED = (
    _NAME,
    arg("--command TEXT", "program with its arguments", default=""),
    arg("--url URL", "address of a server that runs elsewhere", default=""),
    flag("--sse", "the URL is of the older kind, with server-sent events"),
    _several("--header TEXT", "header of every request, as NAME:VALUE", "headers"),
    flag("--oauth", "log in with OAuth"),
    _several("--env TEXT", "variable of the command, as NAME=VALUE", "env"),
    _several("--secret SECRET", "name from executor.secrets", "secrets"),
    _several("--host HOST", "host that the command may reach; * is any", "hosts"),
    JSON_OBJECT,
)
COMMAND = Command(
    EXAMPLES,
    (
        action(_list, JSON_LIST, services=("agent",)),
        action(_add, *_ADDED),
        action(
            _test,
            _NAME,
            flag("--accept", "agree to what it offers now"),
            JSON_OBJECT,
            services=("agent", "executor"),
        ),
        action(_remove, _NAME, YES, JSON_OBJECT),
        SERVE,
    ),
    defaults={"prefill": False, "warm_pool_size": 0},
)
