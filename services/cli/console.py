"""What commands share in talking to a person or to a script."""

import json
import sys
from collections.abc import Mapping
from typing import Any


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"hermes: {text}\n")


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
