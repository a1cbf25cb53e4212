"""Checks that requests of all services share, and lenient reading of foreign data."""

import json
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from services.errors import InvalidArgument

_T = TypeVar("_T")
T = TypeVar("T", bound=Struct)
_fields = cache(msgspec.structs.fields)
_ID = re.compile(r"[A-Za-z0-9_.:-]+")
MAX_ID_CHARS = 128
MAX_DENIED = 200
MAX_COMMAND_CHARS = 64


def check_id(field: str, value: str, max_chars: int = MAX_ID_CHARS) -> None:
    """Reject a caller's id that is empty, too long or has unusual characters."""
    if len(value) > max_chars or not _ID.fullmatch(value):
        wanted = f"1 to {max_chars} characters of A-Z a-z 0-9 _ . : -"
        raise InvalidArgument(f"{field} is not an id: {wanted}", fields={field: wanted})


def page_size(asked: int, default: int, most: int = 1000) -> int:
    """Return the page size, or the default for 0; rejects one out of range."""
    if not 0 <= asked <= most:
        raise InvalidArgument("page_size is out of range", fields={"page_size": f"0 to {most}"})
    return asked or default


def denied_commands(names: Iterable[str]) -> tuple[str, ...]:
    """Return the slash commands that a request denies; InvalidArgument for too many."""
    denied = tuple(sorted(set(names)))
    if len(denied) > MAX_DENIED or any(len(name) > MAX_COMMAND_CHARS for name in denied):
        wanted = f"at most {MAX_DENIED}, each at most {MAX_COMMAND_CHARS} characters"
        raise InvalidArgument("these are no commands", fields={"denied_commands": wanted})
    return denied


def object_of(value: object) -> dict[str, Any]:
    """Return an object, or an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def json_object(text: bytes | str) -> dict[str, Any] | None:
    """Parse a JSON object; None if the text is none."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def decode(data: bytes | str, kind: type[_T]) -> _T:
    """Decode JSON as a type; raises msgspec.DecodeError."""
    return _decoder(kind).decode(data)


def convert(value: object, kind: type[_T]) -> _T:
    """Convert builtins to a type; raises msgspec.ValidationError."""
    _decoder(kind)
    try:
        return msgspec.convert(value, kind)
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise msgspec.ValidationError(str(error)) from None


_describing = threading.Lock()
"""Serializes msgspec's first use of a type, as half-built type info crashes the process."""


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with _describing:
        return msgspec.json.Decoder(kind)


def lenient(record: object, kind: type[T]) -> T:
    """Read a record leniently: an invalid field counts as missing."""
    fields = object_of(record)
    known: dict[str, Any] = {}
    for each in _fields(kind):
        if each.name in fields:
            with suppress(msgspec.ValidationError):
                known[each.name] = convert(fields[each.name], each.type)
    return kind(**known)
