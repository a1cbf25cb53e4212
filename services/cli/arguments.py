"""Common parts of the commands' parsers."""

import argparse
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from google.protobuf.duration_pb2 import Duration

LEVELS = ("debug", "info", "warning", "error")
INT32 = 2**31 - 1
INT64 = 2**63 - 1
"""The largest value of an int64 field."""
MOST = 10**15
"""The largest budget in micro-dollars or tokens."""

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LENGTH = re.compile(r"(?:\d{1,9}[smhdw])+")


def add_home(parser: argparse.ArgumentParser, **how: Any) -> None:
    """Add the options of commands that work in a home."""
    parser.add_argument("--home", metavar="FOLDER", help="home folder (~/.hermes)", **how)
    parser.add_argument("--profile", metavar="NAME", help="profile in the home", **how)


def up_to(most: int, least: int = 0) -> Callable[[str], int]:
    """Return the argument type of integers from `least` to `most`."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least} and {most}")
        return value

    return number


def length(most_days: int, least_s: int = 0) -> Callable[[str], Duration]:
    """Return the argument type of durations such as `90s`, `10m` or `1h30m`."""

    def duration(text: str) -> Duration:
        if _LENGTH.fullmatch(text) is None:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a duration such as 90d, 10m or 1h30m"
            )
        parts = re.findall(r"(\d+)(\w)", text)
        seconds = sum(int(count) * UNITS_S[unit] for count, unit in parts)
        if seconds < least_s:
            raise argparse.ArgumentTypeError(f"{text} is too short")
        if seconds > most_days * UNITS_S["d"]:
            raise argparse.ArgumentTypeError(f"{text} is longer than {most_days} days")
        return Duration(seconds=seconds)

    return duration


def micro_usd(text: str) -> int:
    """Parse an amount of US dollars."""
    try:
        amount = Decimal(text.removeprefix("$")) * 1_000_000
    except InvalidOperation:
        amount = Decimal(0)
    if not (amount.is_finite() and 1 <= amount <= MOST):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in dollars such as 2.50")
    return round(amount)
