"""Finds the subcommand, runs it, and turns what goes wrong into one line."""

import argparse
import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from services.cli.console import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, complain

DESCRIPTION = "Hermes, your own AI agent: it talks, runs commands in a sandbox, and keeps at it."

EXAMPLES = """\
examples:
  hermes up                           start everything, and talk
  hermes chat -q "what is in here?"   ask once
  hermes jobs add "every 2h" "look for new mail"
  hermes doctor                       see what works, and what to do about the rest

Every command has --help with examples of its own."""

COMMANDS = {
    "up": "start all services in one process, and talk",
    "chat": "talk, or ask once with -q",
    "demo": "see the whole system work, with a scripted model",
    "sessions": "list, show, find, name, branch, take back, export and delete conversations",
    "memory": "show what is remembered and how it came to be, and undo changes",
    "skills": "list and show what the agent has learned to do",
    "curator": "see, run, pause and undo what keeps the skills small and current",
    "jobs": "add, change, run and move scheduled jobs, and see what came of them",
    "login": "log in at a model provider, such as with a subscription",
    "logout": "forget a login at a model provider",
    "models": "list models with their context windows and prices",
    "tools": "list the tools that the model has, and what others lack",
    "usage": "show what model calls used and cost",
    "budget": "show and set what may be spent",
    "sandboxes": "list, use and end sandboxes, and read what ran in them",
    "workspaces": "list, copy and delete what sandboxes leave behind, and keep snapshots",
    "pools": "see how full executors are, change that, drain them, end lost boxes",
    "approvals": "list what waits for a decision, and decide it",
    "security": "try how commands and texts of your own are judged",
    "serve": "run one service",
    "health": "ask a service that runs here whether it serves",
    "home": "move a home: take every file of one, or write them all into a folder",
    "doctor": "check everything this machine needs",
    "database": "bring the tables of services up to date",
    "config": "show, set, edit, migrate and check the configuration",
    "certs": "make certificates for services that talk over TCP",
    "service": "let systemd keep Hermes running on this machine",
    "completion": "make your shell complete the commands",
}
"""Each is a module beside this one or in a folder, imported when it is called."""

_FOLDERS = {
    "admin": ("certs", "database", "doctor", "health", "login", "logout", "security", "service"),
    "sandboxes": ("pools", "workspaces"),
}
_PACKAGES = ("chat", "home", "jobs", "sandboxes", "sessions", "skills")
"""Those that are a folder themselves, with a module `command`."""

OBJECTS_WHILE_STARTING = 1_000_000
"""Made between two collections of garbage until services serve.

Nearly all that a start makes stays; finding that out again and again takes an eighth of its time.
"""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""What a write of output meets where a disk is full, or broken."""


def main() -> NoReturn:
    """Runs `hermes`, and ends the process with its exit status.

    A command has closed what it opened when it returns, so that nothing is left to do but for
    Python to take itself apart, which takes longer than `--version` does.
    """
    _open_streams()
    gc.set_threshold(OBJECTS_WHILE_STARTING)
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE  # whoever read our output has enough
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        complain(f"the output could not be written: {error.strerror}")
        status = EXIT_FAILURE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    os._exit(status)


def _open_streams() -> None:
    """Give the standard streams that whoever started us has closed somewhere to go.

    Else the first files that are opened, such as a database, would get their numbers.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def _run(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-V"]):
        sys.stdout.write(f"hermes {version('hermes-services')}\n")
        return 0
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        return _without_command(arguments)
    command = importlib.import_module(module_of(name)).COMMAND
    return _guarded(command.run, parser_of(name).parse_args(arguments[1:]))


def module_of(name: str) -> str:
    """Returns the name of a subcommand's module."""
    folders = [f"{folder}." for folder, names in _FOLDERS.items() if name in names]
    return f"services.cli.{''.join(folders)}{name}{'.command' * (name in _PACKAGES)}"


def parser_of(name: str) -> argparse.ArgumentParser:
    """Returns the parser of a subcommand's arguments."""
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
        complain(f"say the command first, and {unknown[0]} behind it; see hermes --help")
    else:
        complain(f"there is no command {unknown[0]!r}; see hermes --help")
    return EXIT_USAGE


def _guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Runs a command; what can go wrong is one line that says what to do, never a traceback."""
    failures = importlib.import_module("services.cli.failures")
    try:
        return run(arguments)
    except failures.EXPECTED as error:
        complain(failures.explain(error))
        return EXIT_FAILURE
