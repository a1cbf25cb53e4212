"""What the parsers of commands have in common."""

import argparse
from collections.abc import Callable
from typing import Any

LEVELS = ("debug", "info", "warning", "error")
INT32 = 2**31 - 1
INT64 = 2**63 - 1
"""The largest numbers of a request's fields."""


def add_home(parser: argparse.ArgumentParser, **how: Any) -> None:
    """The options of every command that works in a home."""
    parser.add_argument("--home", metavar="FOLDER", help="the home (default: ~/.hermes)", **how)
    parser.add_argument("--profile", metavar="NAME", help="a profile of the home", **how)


def up_to(most: int, least: int = 0) -> Callable[[str], int]:
    """The type of an argument that is a whole number from `least` on."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return value

    return number


class Actions:
    """The actions of a command, such as `list` of `hermes jobs`, each with help of its own."""

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        names: str,
        *,
        home: bool = True,
        required: bool = True,
    ) -> None:
        self._command = parser
        self._home = home
        if home:
            add_home(parser)
        self._parsers = parser.add_subparsers(dest="action", required=required, metavar=names)

    def add(self, name: str, meaning: str) -> argparse.ArgumentParser:
        """Add an action; its examples are those of the command that are about it."""
        usage = f"  {self._command.prog} {name}"
        lines = (self._command.epilog or "").splitlines()
        action = self._parsers.add_parser(
            name,
            help=meaning,
            description=f"{meaning[0].upper()}{meaning[1:]}.",
            epilog="\n".join(["examples:", *(line for line in lines if line.startswith(usage))]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if self._home:  # before the action or behind it
            add_home(action, default=argparse.SUPPRESS)
        return action
