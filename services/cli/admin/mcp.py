"""Add, list, test and remove MCP servers, whose tools models may call; serve Hermes itself."""

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

from hermes.agent.v1 import mcp_pb2 as pb
from hermes.agent.v1.mcp_pb2_grpc import McpServiceStub
from services.amounts import plural
from services.cli import process
from services.cli.admin.login import check_place
from services.cli.arguments import up_to
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
from services.cli.connection import has_services
from services.cli.output import Column
from services.cli.startup import imported, keep
from services.config.edit import remove_path
from services.config.settings import is_secret_name
from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from services.redaction.redactor import MASK, Redactor
from services.runtime.logins import LoggedIn

EXAMPLES = """\
examples:
  hermes mcp list
  hermes mcp add time --command "python3 -m mcp_server_time"
  hermes mcp add search --command "npx -y search-mcp" --host "*" --secret SEARCH_TOKEN
  hermes mcp add docs --url https://docs.example.com/mcp
  hermes mcp add notes --url https://notes.example.com/mcp --oauth
  hermes mcp test time                 connect now, and list its tools
  hermes mcp test time --accept        and agree to tools that have changed
  hermes mcp login notes               log in with a browser on this machine
  hermes mcp login notes --port 8765   the same over ssh -L 8765:127.0.0.1:8765
  hermes mcp logout notes
  hermes mcp remove time
  hermes mcp serve --tier operate      serve Hermes itself to another agent

A command runs in a sandbox of its own, which reaches only the hosts that you list. A server
behind a URL runs elsewhere. Hermes connects when a session first needs the tools."""

SECTION = "mcp_servers"
LOG_IN = "agent_service.assembly.mcp_logins:log_in"
LOG_OUT = "agent_service.assembly.mcp_logins:log_out"
TIERS = ("read", "operate", "own")
MISSING = "hermes mcp serve needs a package: pip install 'hermes-services[mcp]'"
_TEST_S = 120.0
_NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_SECRET_HEADERS = frozenset({"authorization", "proxy_authorization", "cookie"})


async def _list(context: Context) -> None:
    """List servers, and what is missing for them."""
    request = context.request(pb.ListMcpServersRequest)
    found = (await context.stub(McpServiceStub).ListMcpServers(request)).servers
    context.print_list(found, _COLUMNS, "There are no MCP servers; add one with hermes mcp add.")


async def _add(context: Context) -> None:
    """Add a server to config.yaml."""
    given, settings = context.given, context.settings
    if _NAME_FORM.fullmatch(given.name) is None:
        raise InvalidArgument(f"{given.name!r} is not a name: use letters, digits, _ and -")
    if given.name in _configured(settings.yaml.data):
        raise AlreadyExists(f"there is an MCP server {given.name} already; remove it first")
    entry = _entry(given)
    path = keep(settings, f"{SECTION}.{given.name}", json.dumps(entry))
    restart = await _restart(context)
    text = f"{given.name} is in {path}. {restart}Try it with: hermes mcp test {given.name}"
    shown = {**entry, "headers": dict.fromkeys(entry["headers"], MASK)} if given.headers else entry
    context.print_value({"name": given.name, "server": shown, "file": str(path)}, text)


def _entry(given: Any) -> dict[str, Any]:
    try:
        command = shlex.split(given.command)
    except ValueError as error:
        raise InvalidArgument(f"--command cannot be read: {error}") from None
    if bool(command) == bool(given.url):
        raise InvalidArgument("give either --command or --url")
    _check_words([*command, given.url])
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
        is_secret = _names_secret(name) or Redactor().redact(value) != value
        if sign == ":" and is_secret and "${" not in value:
            raise InvalidArgument(
                f"the header {name.strip()} looks like a secret: put it into .env, and give "
                f"--header '{name.strip()}: ${{VARIABLE}}'"
            )
        pairs[name.strip()] = value.strip()
    return pairs


def _check_words(words: Sequence[str]) -> None:
    """Refuse secrets in a command or URL, which lists of servers and of processes show."""
    option = ""
    for word in words:
        name, _, value = word.partition("=")
        if (
            (name.strip("-") and value and _names_secret(name))
            or (option and not word.startswith("-"))
            or Redactor().redact(word) != word
        ):
            raise InvalidArgument(
                "the command or URL looks as if it has a secret: put it into executor.secrets and "
                "give --secret NAME, or into .env and give it with --header"
            )
        option = name if word.startswith("-") and not value and _names_secret(name) else ""


def _names_secret(name: str) -> bool:
    plain = name.strip().strip("-").replace("-", "_").lower()
    return plain in _SECRET_HEADERS or is_secret_name(plain)


async def _test(context: Context) -> None:
    """Connect to a server now, and list what it offers."""
    given = context.given
    request = context.request(pb.TestMcpServerRequest, accept_changes=given.accept)
    answer = await context.stub(McpServiceStub).TestMcpServer(request, timeout=_TEST_S)
    server = answer.server
    told = f"{server.name} answers. It offers {_offers(server) or 'nothing'}."
    lines = [told, *(f"  {name}" for name in server.tools)]
    if answer.changes:
        text = "You have agreed to these changes:" if given.accept else "These tools changed:"
        lines += [text, answer.changes]
    context.print_value(answer, "\n".join(lines))


async def _login(context: Context) -> None:
    """Log in to a server with a browser on this machine."""
    given, settings = context.given, context.settings
    check_place(settings)
    steps = imported(LOG_IN)(settings, given.name, given.port)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, LoggedIn):
                text = f"Logged in to {given.name}. The login is in {step.place}."
                context.print_value({"event": "logged_in", "file": step.place}, text)
            else:
                text = f"Open this page in a browser on this machine:\n\n  {step}\n"
                context.print_value({"event": "page", "url": step}, text)
            sys.stdout.flush()


async def _logout(context: Context) -> None:
    """Forget the login at a server."""
    given, settings = context.given, context.settings
    check_place(settings)
    was_there = await imported(LOG_OUT)(settings, given.name)
    text = f"Logged out of {given.name}." if was_there else "There was no login."
    context.print_value({"name": given.name, "was_there": was_there}, text)


async def _remove(context: Context) -> None:
    """Remove a server from config.yaml."""
    given, settings = context.given, context.settings
    if given.name not in _configured(settings.yaml.data):
        raise NotFound(f"there is no MCP server {given.name} in {settings.home.config}")
    await context.confirm(
        f"Remove the MCP server {given.name}?", "add --yes to remove it", "nothing was removed"
    )
    if _configured(settings.yaml.data)[given.name].get("url"):
        check_place(settings)
        await imported(LOG_OUT)(settings, given.name)
    path = remove_path(settings.home, (SECTION, given.name))
    text = f"{given.name} is no longer in {path}. {await _restart(context)}".rstrip()
    context.print_value({"name": given.name, "file": str(path)}, text)


async def _serve(context: Context) -> None:
    """Serve Hermes to an MCP client, which starts this, on standard input and output."""
    try:
        serve = imported("gateway_service.servicer.mcp.server:serve_stdio")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise FailedPrecondition(MISSING) from None
    await serve(context.channels, context.profile, context.given.tier)


async def _restart(context: Context) -> str:
    """Return what applies a change, if anything runs that has read the settings."""
    is_needed = await has_services(context.settings, ("agent",))
    return "Restart Hermes to apply it. " if is_needed else ""


def _configured(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return data.get(SECTION) or {}


def _offers(server: pb.McpServer) -> str:
    counts = {"tool": len(server.tools), "prompt": len(server.prompts)}
    offers = [plural(count, name) for name, count in counts.items() if count]
    offers += ["resources"] if server.has_resources else []
    return " and ".join(offers)


def _state(server: pb.McpServer) -> str:
    if server.problem:
        return f"off: {server.problem}"
    is_known = server.tools or server.prompts or server.has_resources
    return "on" if is_known else "not connected yet"


_COLUMNS = (
    Column("server", "name"),
    Column("state", _state),
    Column("offers", _offers),
    Column("what it is", "target"),
)
_NEW = arg("NAME", "name of the server")
_NAME = arg("SERVER", "name of the server", field="name")
_TIER = arg("--tier", "rights of the client (read)", choices=TIERS, default="read")


def _several(form: str, meaning: str, name: str) -> Argument:
    return arg(form, meaning, field=name, action="append", default=[])


_ADDED = (
    _NEW,
    arg("--command TEXT", "program with its arguments", default=""),
    arg("--url URL", "address of a server that runs elsewhere", default=""),
    flag("--sse", "use the older transport, with server-sent events"),
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
        action(
            _login,
            _NAME,
            arg(
                "--port PORT",
                "port for the browser's answer (any free one)",
                up_to(65535),
                default=0,
            ),
            flag("--json", "print one JSON object a line"),
        ),
        action(_logout, _NAME, JSON_OBJECT),
        action(_remove, _NAME, YES, JSON_OBJECT),
        action(_serve, _TIER, services=process.ALL),
    ),
    defaults={"prefill": False, "warm_pool_size": 0},
)
