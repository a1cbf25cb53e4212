"""Print a script that makes your shell complete hermes commands and options."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

from services.cli import main
from services.cli.command import Command, Context, arg

EXAMPLES = """\
examples:
  hermes completion bash > ~/.local/share/bash-completion/completions/hermes
  hermes completion zsh > "${fpath[1]}/_hermes"
  hermes completion fish > ~/.config/fish/completions/hermes.fish

Start a new shell afterwards. Run the command again after an upgrade of Hermes."""

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
_FILES = ("FILE", "FOLDER", "PATH")


def _print(context: Context) -> None:
    import shtab

    parser = _all_commands()
    for argument in _arguments_of(parser):
        if argument.metavar in _FILES:
            cast("Any", argument).complete = shtab.FILE
    script = cast("Any", shtab).complete(parser, context.given.shell)
    sys.stdout.write(script + "\n")


def _all_commands() -> argparse.ArgumentParser:
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


COMMAND = Command(
    EXAMPLES,
    function=_print,
    arguments=(arg("shell", "the shell", choices=SHELLS),),
    has_home=False,
)
