"""Print what makes a shell complete the commands and options of hermes."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from services.cli import main

EXAMPLES = """\
examples:
  hermes completion bash >> ~/.bash_completion
  hermes completion zsh > "${fpath[1]}/_hermes"
  hermes completion fish > ~/.config/fish/completions/hermes.fish

A shell that is started anew completes. Do the same again after an upgrade."""

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_FILES = ("FILE", "FOLDER", "PATH")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `hermes completion`."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab

    parser = _all_commands()
    for argument in _arguments_of(parser):
        if argument.metavar in _FILES:
            cast("Any", argument).complete = shtab.FILE
    sys.stdout.write(shtab.complete(parser, arguments.shell) + "\n")
    return 0


def _all_commands() -> argparse.ArgumentParser:
    """One parser with every command in it, as shells see `hermes`."""
    parser = argparse.ArgumentParser(prog="hermes")
    parser.add_argument("-V", "--version", action="store_true", help="show the version")
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, meaning in main.COMMANDS.items():
        own = main.parser_of(name)
        commands.add_parser(name, help=meaning, parents=[own], add_help=False)
    return parser


def _arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for argument in cast("Any", parser)._actions:  # noqa: SLF001 - argparse shows them to nobody
        if isinstance(argument.choices, Mapping):
            for action in cast("Mapping[str, argparse.ArgumentParser]", argument.choices).values():
                yield from _arguments_of(action)
        yield argument
