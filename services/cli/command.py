"""Declaration of commands: their arguments, actions and functions.

Each command's module has a `COMMAND`. A function gets a `Context`; an async one runs with the
settings loaded, the home created, the log open, and a connection to its services.
"""

import argparse
import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar, cast

import grpc.aio
from google.protobuf.message import Message
from msgspec import Struct, field

from services.cli.arguments import INT32, LEVELS, add_home, up_to
from services.cli.connection import at_home, connected
from services.cli.console import EXIT_USAGE, complain, printable, say
from services.cli.output import Column, print_json, print_rows
from services.cli.standard_input import agreed
from services.cli.startup import load, run_in_home
from services.config.paths import nearest, suggestion
from services.config.settings import Settings
from services.errors import FailedPrecondition, InvalidArgument, NotFound
from services.rpc.channels import Channels

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")
SHOWING, HELP = ("list", "show", "status"), ("-h", "--help")
_CHOICE = re.compile(
    r"argument (?P<what>.+): invalid choice: (?P<given>.+) \(choose from (?P<known>.+)\)"
)
"""How argparse refuses a value."""
_SHOWN = 5
"""How many ambiguous ids an error names."""


class Argument(Struct, frozen=True):
    """The arguments of `argparse.ArgumentParser.add_argument`."""

    names: Sequence[str]
    options: Mapping[str, Any]


class OneOf(Struct, frozen=True):
    """Mutually exclusive arguments."""

    arguments: Sequence[Argument]
    required: bool = False


def arg(
    form: str,
    meaning: str,
    kind: Callable[[str], Any] | None = None,
    *,
    field: str = "",
    **options: Any,
) -> Argument:
    """Declare an argument such as `-q --question TEXT`, `FILE?` or `SKILL*`, stored as `field`."""
    *names, last = form.split()
    value = "" if last.startswith("-") else last.rstrip("?*+")
    names += [] if value else [last]
    options |= {"help": meaning, **({"type": kind} if kind else {})}
    if value.isupper():
        options["metavar"] = value
    if value and value != last:
        options["nargs"] = last[-1]
    if names and field:
        options["dest"] = field
    return Argument(names or [field or value.lower()], options)


def flag(names: str, meaning: str, **options: Any) -> Argument:
    """Declare an option without a value."""
    options.setdefault("action", "store_true")
    return arg(names, meaning, **options)


def choice(name: str, meaning: str, field: str, value: object, default: object = None) -> Argument:
    """Declare an option that stands for a value of a field."""
    return arg(name, meaning, field=field, action="store_const", const=value, default=default)


JSON_LIST = flag("--json", "print a JSON list")
JSON_OBJECT = flag("--json", "print a JSON object")
YES = flag("--yes", "do not ask for confirmation")
CONTINUED = OneOf(
    (
        flag("-c --continue", "continue the last session", field="latest"),
        arg("-r --resume SESSION", "continue the session with this id or title"),
    )
)
METRICS_PORT = arg("--metrics-port PORT", "serve /metrics on this port", up_to(INT32))
LOG_LEVEL = arg("--log-level", "minimum level of log messages", choices=LEVELS)


def limit(most: int = INT32, default: int = 20) -> Argument:
    """Declare the option for the number of listed items."""
    text = f"show at most N ({default})"
    kind = up_to(most, 1)
    return arg("--limit N", text, kind, field="page_size", default=default)


DRY_RUN = flag("--dry-run", "show what would happen, and change nothing")


class Context:
    """What a command's function works with."""

    def __init__(self, given: argparse.Namespace, channels: Channels | None = None) -> None:
        self.given = given
        self._channels = channels

    @cached_property
    def settings(self) -> Settings:
        """The checked settings; warnings go to standard error."""
        return load(self.given)

    @property
    def profile(self) -> str:
        """The profile for requests; empty: the home's."""
        return self.given.profile or ""

    @property
    def channels(self) -> Channels:
        if self._channels is None:
            raise RuntimeError("the command names no services")
        return self._channels

    def stub(self, kind: Callable[[grpc.aio.Channel], _T]) -> _T:
        """Return a client of a service, such as `context.stub(SessionServiceStub)`."""
        service = kind.__module__.split(".")[1]  # from hermes.agent.v1.session_pb2_grpc
        return kind(self.channels.to(service))

    def request(self, kind: type[_M], **more: Any) -> _M:
        """Build a request from the arguments with its fields' names, the profile, and `more`."""
        names = cast("Mapping[str, object]", kind.DESCRIPTOR.fields_by_name)
        given = {**vars(self.given), "profile": self.profile, **more}
        return kind(**{name: given[name] for name in names if given.get(name) is not None})

    def print_list(self, rows: Sequence[Any], columns: Sequence[Column], empty: str) -> None:
        """Print a table, or a JSON list with --json; `empty` replaces an empty table."""
        if self.given.json:
            print_json(rows)
        else:
            print_rows(rows, columns, empty)

    def print_value(self, value: Any, text: str) -> None:
        """Print a message or another value as JSON with --json, else the text."""
        if self.given.json:
            print_json(value)
        else:
            say(printable(text))

    async def confirm(self, question: str, unasked: str, declined: str) -> None:
        """Ask unless --yes is given; a no raises `declined`, a missing terminal `unasked`."""
        if not self.given.yes and not await agreed(question, unasked):
            raise FailedPrecondition(declined)

    async def run(
        self, function: "Function", services: Sequence[str], started: Sequence[str] = ()
    ) -> int:
        """Run a function with the services that it calls, at home with those it starts."""
        if not services:
            return await function(self) or 0
        if started and at_home(self.settings, services):
            services = started
        async with connected(self.settings, services) as self._channels:
            return await function(self) or 0


Function = Callable[[Context], Awaitable[int | None]]
"""Returns the exit status; None is success."""
PlainFunction = Callable[[Context], int | None]
"""A function that loads what it needs by itself."""


class Action(Struct, frozen=True):
    """A part of a command, such as `list` of `hermes jobs`."""

    name: str
    help: str
    function: Function | PlainFunction
    arguments: Sequence[Argument | OneOf] = ()
    services: Sequence[str] | None = None
    """The services that it calls; None: the command's."""
    started: Sequence[str] = ()
    """The services that it starts at home; empty: those that it calls."""


def action(
    function: Function | PlainFunction,
    *arguments: Argument | OneOf,
    name: str = "",
    help: str = "",  # noqa: A002 - as argparse calls it
    services: Sequence[str] | None = None,
    started: Sequence[str] = (),
) -> Action:
    """Declare an action; its name and help default to those of its function."""
    text = (help or inspect.getdoc(function) or "").removesuffix(".")
    meaning = f"{text[0].lower()}{text[1:]}"
    named = name or function.__name__.strip("_")
    return Action(named, meaning, function, arguments, services, started)


class Command(Struct, frozen=True):
    """A command, such as `hermes jobs`; its help begins with the docstring of its module."""

    examples: str
    """The end of its help; an action's help has the lines about the action."""
    actions: Sequence[Action] = ()
    function: Function | PlainFunction | None = None
    """Runs without an action; None: an action is required."""
    arguments: Sequence[Argument | OneOf] = ()
    services: Sequence[str] = ()
    """The services that its functions call, started if they do not run."""
    has_home: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings for this command, by the names of flags."""
    locate: Callable[[Settings, argparse.Namespace], Awaitable[Settings]] | None = None
    """Finds the settings of another home if the command works there."""

    def parser(self, name: str, description: str | None) -> argparse.ArgumentParser:
        parser = _Parser(
            prog=f"hermes {name}",
            description=description,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(**self.defaults)
        if self.has_home:
            add_home(parser)
        _add(parser, self.arguments)
        if self.actions:
            names = "|".join(action.name for action in self.actions)
            required = self.function is None
            parsers = parser.add_subparsers(dest="action", required=required, metavar=names)
            for action in self.actions:
                self._add_action(parsers, parser.prog, action)
        return parser

    def with_action(self, arguments: Sequence[str]) -> Sequence[str]:
        """Return the arguments with the action that shows something, if there is none."""
        names = {action.name for action in self.actions}
        usual = next((name for name in SHOWING if name in names), None)
        has_none = not arguments or arguments[0].startswith("-")
        if self.function or not usual or not has_none or {*names, *HELP} & {*arguments}:
            return arguments
        return [usual, *arguments]

    def _add_action(self, parsers: Any, command: str, action: Action) -> None:
        usage = f"  {command} {action.name}"
        examples = self.examples.splitlines()
        lines = [line for line in examples if f"{line} ".startswith(f"{usage} ")]
        parser: argparse.ArgumentParser = parsers.add_parser(
            action.name,
            help=action.help,
            description=f"{action.help[0].upper()}{action.help[1:]}.",
            epilog="\n".join(["examples:", *lines]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self.has_home:  # before or after the action
            add_home(parser, default=argparse.SUPPRESS)
        _add(parser, action.arguments)

    def run(self, given: argparse.Namespace) -> int:
        chosen = vars(given).get("action")
        action = next((one for one in self.actions if one.name == chosen), None)
        function = self.function if action is None else action.function
        services = None if action is None else action.services
        started = () if action is None else action.started
        context = Context(given)
        assert function is not None, "argparse asks for an action"
        if not inspect.iscoroutinefunction(function):
            status: Any = function(context)
            return status or 0
        if self.locate is not None:
            context.settings = asyncio.run(_awaited(self.locate(context.settings, given)))
        needed = self.services if services is None else services
        return run_in_home(context.settings, lambda: context.run(function, needed, started))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        advice = f"; see {self.prog} --help"
        if wrong := _CHOICE.fullmatch(message):
            known = re.findall("[^', ]+", wrong["known"])
            advice = suggestion(nearest(wrong["given"].strip("'"), known)) or (
                f"; choose from {', '.join(known)}{advice}"
            )
            what = "action" if "|" in wrong["what"] else wrong["what"]
            message = f"unknown {what} {wrong['given']}"
        complain(f"{message}{advice}")
        raise SystemExit(EXIT_USAGE)


def _add(parser: argparse.ArgumentParser, arguments: Sequence[Argument | OneOf]) -> None:
    for argument in arguments:
        if isinstance(argument, OneOf):
            group = parser.add_mutually_exclusive_group(required=argument.required)
            for one in argument.arguments:
                group.add_argument(*one.names, **one.options)
        else:
            parser.add_argument(*argument.names, **argument.options)


async def _awaited(value: Awaitable[_T]) -> _T:
    return await value


# ---- finding


class _Page(Protocol):
    next_page_token: str


async def pages(
    method: Callable[..., Awaitable[Any]], request: Any, timeout_s: float | None = None
) -> AsyncGenerator[Any]:
    """Yield the pages of a listing RPC."""
    while True:
        page: _Page = await method(request, timeout=timeout_s)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def pick(
    named: str,
    candidates: Sequence[_T],
    ident: Callable[[_T], str],
    *,
    names: Callable[[_T], Sequence[str]] = lambda _: (),
    what: str,
    see: str,
    prefix: str = "",
) -> _T:
    """Find an item by id, name or unique id prefix, which may lack its type such as `job_`."""
    key = named.casefold()
    exact = [one for one in candidates if ident(one) == named]
    titled = [one for one in candidates if key in (name.casefold() for name in names(one))]
    begun = [one for one in candidates if ident(one).startswith((named, f"{prefix}{named}"))]
    found = exact or titled or begun
    ids = list(dict.fromkeys(map(ident, found)))
    if not ids:
        raise NotFound(f"there is no {what} {named!r}; see {see}")
    if len(ids) > 1:
        more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
        listed = f"{', '.join(ids[:_SHOWN])}{more}"
        raise InvalidArgument(f"{named!r} matches {listed}; give more of the id")
    return found[0]
