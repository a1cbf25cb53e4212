"""Finds the subcommand, runs it, and reports errors in one line."""

import argparse
import errno
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from services.cli.console import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, complain

DESCRIPTION = (
    "Hermes is your own AI agent. It chats, runs commands in a sandbox, and works on a schedule."
)

EXAMPLES = """\
examples:
  hermes up                           start Hermes and open a chat
  hermes chat -q "what is in here?"   ask one question
  hermes jobs add "every 2h" "look for new mail"
  hermes doctor                       check this machine, and show how to fix problems

Run hermes help COMMAND for the options and examples of a command."""

COMMANDS = {
    "up": "start all services in one process and open a chat",
    "chat": "chat, or ask one question with -q",
    "acp": "connect editors such as Zed to Hermes",
    "setup": "choose a model, a sandbox, tools and platforms, step by step",
    "demo": "try Hermes with a scripted model",
    "sessions": "list, search, rename, branch, undo, export and delete sessions",
    "memory": "show the memory and its history, undo changes, and set up Honcho",
    "skills": "list, install, update and share skills",
    "curator": "run, pause and undo the curator, which tidies up skills",
    "jobs": "add, edit, run, import and export scheduled jobs",
    "batch": "run many prompts, each in a sandbox of its own",
    "trajectories": "turn trajectories into data sets to train models with",
    "rl": "run tasks whose results are scored, for training and evaluation",
    "login": "log in to a model provider",
    "logout": "log out of a model provider",
    "models": "list models with their context windows and prices",
    "tools": "list tools, and turn toolsets on and off",
    "mcp": "add, test and log in to MCP servers, and serve Hermes as one",
    "usage": "show the tokens and the cost of model calls",
    "budget": "show and set budgets for model calls",
    "sandboxes": "list, open and end sandboxes, and show the output of commands",
    "workspaces": "list, fork, snapshot and delete workspaces",
    "pools": "show and resize pools, and drain executors",
    "hooks": "list and test your own functions for events in chats",
    "approvals": "list, approve and deny approvals",
    "pairing": "give people on platforms access, and revoke it",
    "send": "send a message or a file to a chat",
    "gateway": "show the connections to platforms, and the known chats",
    "security": "test how Hermes classifies commands and texts",
    "serve": "run one service",
    "health": "check that a service on this machine is ready",
    "home": "import and export a home",
    "doctor": "check this machine",
    "database": "upgrade the database tables",
    "config": "show, set, edit, migrate and check the configuration",
    "certs": "create certificates for services that talk over TCP",
    "service": "run Hermes as a systemd service",
    "completion": "print completions for your shell",
}
"""Each is a module here or in a folder, imported when called."""

_FOLDERS = {
    "admin": (
        "certs",
        "database",
        "doctor",
        "health",
        "hooks",
        "login",
        "logout",
        "mcp",
        "security",
        "service",
        "setup",
    ),
    "platforms": ("gateway", "pairing", "send"),
    "sandboxes": ("pools", "workspaces"),
}
_PACKAGES = (
    "acp",
    "batch",
    "chat",
    "home",
    "jobs",
    "rl",
    "sandboxes",
    "sessions",
    "skills",
    "trajectories",
)
"""Folders with a module `command`."""

OBJECTS_WHILE_STARTING = 1_000_000
"""Allocations between garbage collections of a start, which keeps nearly all its objects."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""Errors of writes to a full or broken disk."""


def main() -> NoReturn:
    """Run `hermes`, and exit without the interpreter's slow teardown."""
    _open_streams()
    gc.set_threshold(OBJECTS_WHILE_STARTING)
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE  # the reader of our output has enough
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        complain(f"cannot write the output: {error.strerror}")
        status = EXIT_FAILURE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    os._exit(status)


def _open_streams() -> None:
    """Make the standard streams fit for any text.

    Closed ones are opened again, or a database might be opened as number 0, 1 or 2.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-V"]):
        sys.stdout.write(f"hermes {version('hermes-services')}\n")
        return 0
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
        if len(arguments) > 1 and arguments[0] not in COMMANDS:
            arguments.pop()
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        return _without_command(arguments)
    command = importlib.import_module(module_of(name)).COMMAND
    given = command.with_action(arguments[1:])
    return _guarded(command.run, parser_of(name).parse_args(given))


def module_of(name: str) -> str:
    """Return the module of a subcommand."""
    folders = [f"{folder}." for folder, names in _FOLDERS.items() if name in names]
    return f"services.cli.{''.join(folders)}{name}{'.command' * (name in _PACKAGES)}"


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a subcommand."""
    module = importlib.import_module(module_of(name))
    return module.COMMAND.parser(name, module.__doc__)


def _without_command(arguments: list[str]) -> int:
    listed = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="hermes",
        usage="hermes COMMAND …",
        description=f"{DESCRIPTION}\n\ncommands:\n{listed}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="show the version")
    if not arguments:
        parser.print_help()
        return 0
    _, unknown = parser.parse_known_args(arguments)
    if unknown[0].startswith("-"):
        complain(f"put the command before {unknown[0]}; see hermes --help")
    else:
        names = importlib.import_module("services.config.paths")
        similar = names.suggestion(names.nearest(unknown[0], COMMANDS))
        complain(f"unknown command {unknown[0]!r}{similar or '; see hermes --help'}")
    return EXIT_USAGE


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    failures = importlib.import_module("services.cli.failures")
    try:
        return run(arguments)
    except failures.EXPECTED as error:
        complain(failures.explain(error))
        return failures.status_of(error)
