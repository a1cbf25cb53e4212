"""Messages about settings that do not validate."""

import re
from collections.abc import Sequence
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from services.config.fields import Declared, Problem
from services.config.sources import RawValue, YamlFile

Origins = dict[tuple[str, ...], tuple[Declared, RawValue | None]]
"""The declaration and raw value of each field."""

CONFIGURATION = "configuration"
"""The key of problems of several settings together."""
_SHOWN_CHARS = 60
_WORD_CHARS = 8
"""A secret shorter than this may be a part of ordinary words."""
_FIXED_MESSAGES = {"extra_forbidden": "is not a known key", "missing": "is required"}


def explain(error: ValidationError, origins: Origins, yaml: YamlFile) -> list[Problem]:
    """Return one problem for each wrong setting: its place, its value and what it must be."""
    messages: dict[tuple[str, str, str], list[str]] = {}
    for detail in error.errors(include_url=False):
        (key, where), message = _explain(detail, origins, yaml)
        # Messages about one value are the alternatives of a union; others stand for themselves.
        subject = message if key == CONFIGURATION else ""
        texts = messages.setdefault((key, where, subject), [])
        if message not in texts:
            texts.append(message)
    secrets = [str(f.value) for d, f in origins.values() if f and d.secret]
    return [
        Problem(key, where, _without(secrets, " or ".join(texts)))
        for (key, where, _), texts in messages.items()
    ]


def _explain(detail: ErrorDetails, origins: Origins, yaml: YamlFile) -> tuple[tuple[str, str], str]:
    loc = detail["loc"]
    message = _message(detail)
    prefixes = (cast("tuple[str, ...]", loc[:end]) for end in range(len(loc), 0, -1))
    location = next((prefix for prefix in prefixes if prefix in origins), None)
    if location is None:
        return (CONFIGURATION, ""), message
    declared, found = origins[location]
    if found is None:
        return (declared.key, ""), f"{message}; set {_ways_to_set(declared)}"
    inside, value = _descend(found.value, loc[len(location) :], detail["type"] == "missing")
    key = found.key + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in inside)
    in_yaml = found.key in declared.yaml
    where = yaml.where([*found.key.split("."), *inside]) if in_yaml and inside else found.where
    plain_value = isinstance(value, (str, int, float)) and not inside
    if plain_value and not declared.secret and message.startswith("must "):
        message = f"{message}, not {_shorten(value)}"
    return (key, where), message


def _descend(
    value: object, tail: Sequence[str | int], missing: bool
) -> tuple[list[str | int], object]:
    """Follow the part of an error's location that is in the data; the rest names union members."""
    inside: list[str | int] = []
    for part in tail:
        if isinstance(value, dict) and part in value:
            value = cast("dict[str | int, object]", value)[part]
        elif isinstance(value, list) and isinstance(part, int):
            value = cast("list[object]", value)[part]
        elif not (missing and isinstance(value, dict)):
            continue
        inside.append(part)
    return inside, cast("object", value)


def _message(detail: ErrorDetails) -> str:
    if fixed := _FIXED_MESSAGES.get(detail["type"]):
        return fixed
    if detail["type"] == "value_error":
        return str(detail.get("ctx", {}).get("error", detail["msg"]))
    # For example "Input should be a valid integer, unable to parse string as an integer".
    required = detail["msg"].split(", ")[0] if "_parsing" in detail["type"] else detail["msg"]
    # An empty text counts as unset, and is no choice.
    return re.sub(r"^\w+ should ", "must ", required).replace("must be '', ", "must be ")


def _ways_to_set(declared: Declared) -> str:
    ways = [f"{path} in config.yaml" for path in declared.yaml[:1]]
    ways += [f"{name} in the environment or .env" for name in declared.env[:1]]
    ways += [declared.flag.option] if declared.flag else []
    return " or ".join(ways)


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        is_long = len(secret) >= _WORD_CHARS
        text = text.replace(secret, "…") if is_long else text.replace(repr(secret), "'…'")
    return text
