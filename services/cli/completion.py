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
SERVER = "SERVER"
"""Stands for the name of an MCP server in config.yaml."""
_SERVERS = (
    r"""awk '/^[^ #]/ {inside = /^mcp_servers:/} inside && match($0, /^ +/) {"""
    r"""if (!depth) depth = RLENGTH; if (RLENGTH == depth && $1 ~ /^[A-Za-z0-9].*:$/) """
    r"""print substr($1, 1, length($1) - 1)}' """
    r""""${HERMES_HOME:-$HOME/.hermes}/config.yaml" 2>/dev/null"""
)
_NAMES = {
    "bash": f'_hermes_mcp_servers() {{ compgen -W "$({_SERVERS})" -- "$1"; }}',
    "zsh": f'_hermes_mcp_servers() {{ compadd -- ${{(f)"$({_SERVERS})"}}; }}',
}


def _print(context: Context) -> None:
    import shtab

    parser = _all_commands()
    for argument in _arguments_of(parser):
        if argument.metavar in _FILES:
            cast("Any", argument).complete = shtab.FILE
        if argument.metavar == SERVER:
            cast("Any", argument).complete = dict.fromkeys(_NAMES, "_hermes_mcp_servers")
    script = cast("Any", shtab).complete(parser, context.given.shell, preamble=_NAMES)
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
