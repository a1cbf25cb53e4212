"""The names and arguments of tool calls, read leniently where they have only one meaning."""

import ast
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NoReturn, cast
from warnings import catch_warnings

from pydantic import BaseModel, ConfigDict

from services.validation import decode

_DECORATION = re.compile(r"(?:\s|```\w*|<[^<>{}]*>|\ufeff)*")
"""A code fence or marks of a chat template around the arguments."""
_EXCESS = re.compile(r"[\s}\]);]*")
"""Brackets too many behind the arguments."""
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_WORD_ENDS = re.compile(r"[^A-Za-z0-9_-]+|__|^(?:functions?|tools?)_|_(?:function|tool)$")
_MOST_ENCODINGS = 3


class ToolArguments(BaseModel):
    """Base of every tool's arguments, and of objects in them; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


def is_object(text: str) -> bool:
    """Return whether every provider accepts the text as a JSON object."""
    try:
        decode(text, dict[str, Any])
    except (ValueError, RecursionError):
        return False
    return True


def arguments_of(text: str) -> dict[str, Any]:
    """Return the object that the arguments mean; ValueError or RecursionError if there is none."""
    found: Any = text
    for _ in range(_MOST_ENCODINGS):
        found = decoded(found)
        if not isinstance(found, str):
            break
    if found in (None, "", []):
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"but {json.dumps(found)[:40]}")  # noqa: TRY004 - of a text
    if "\\u" in text and not _is_text(json.dumps(found, ensure_ascii=False)):
        raise ValueError("half of a surrogate pair is not a character")
    return cast("dict[str, Any]", found)


def normalize(text: str) -> str:
    """Return the arguments as a JSON object; as they are if they do not mean a single one."""
    if not is_object(text):
        with suppress(ValueError, RecursionError):
            return json.dumps(arguments_of(text), ensure_ascii=False)
    return text


def find_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that a decorated one means; as it is unless it means exactly one."""
    names = list(known)
    if name in names:
        return name
    if (short := name.replace("homeassistant_", "ha_", 1)) in names:
        return short
    words = {plain(word) for word in _WORD_ENDS.split(name)}
    found = [each for each in names if plain(each) in words]
    return found[0] if len(found) == 1 else name


def decoded(text: str) -> Any:
    """Return the value that a text of JSON means; ValueError or RecursionError if there is none."""
    text = text[cast("re.Match[str]", _DECORATION.match(text)).end() :]
    if not text:
        return None
    try:
        return _whole(text)
    except ValueError as error:
        with suppress(ValueError):
            return _whole(_TRAILING_COMMA.sub(lambda found: found[1] or "", text))
        no_literal = (ValueError, SyntaxError, TypeError, MemoryError)
        with suppress(*no_literal), catch_warnings(action="ignore"):
            # As in Python, where an unknown escape is a backslash and a warning.
            return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
        raise error from None


def _whole(text: str) -> Any:
    found, end = _DECODER.raw_decode(text)
    if _DECORATION.fullmatch(text, end) is None and _EXCESS.fullmatch(text, end) is None:
        raise ValueError(f"more text follows them at char {end}")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Models do not always escape line ends in strings.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(word: str) -> str:
    """Return a name without what its spellings differ in: case, dashes and underscores."""
    return re.sub("[-_]", "", word).lower()
