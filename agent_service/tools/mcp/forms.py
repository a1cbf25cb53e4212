"""Forms of MCP servers: what a field asks for, in words, and a person's answer as its value."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

Value = str | int | float | bool | list[str]

_YES, _NO = frozenset({"yes", "true", "y", "1"}), frozenset({"no", "false", "n", "0"})
_KINDS = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "email": "an e-mail address",
    "uri": "an address such as https://example.com/",
    "date": "a date such as 2026-01-31",
    "date-time": "a date and time such as 2026-01-31T14:30:00Z",
}
_LIMITS = {
    "string": ("minLength", "maxLength", " characters"),
    "array": ("minItems", "maxItems", " of them"),
    "integer": ("minimum", "maximum", ""),
    "number": ("minimum", "maximum", ""),
    "boolean": ("", "", ""),
}
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


class FormField(Struct, frozen=True):
    """A field of a form, as MCP allows it."""

    type: str
    format: str
    choices: tuple[tuple[str, str], ...]
    """Values to choose from, each with its name."""
    least: float | None
    most: float | None
    default: Any

    @classmethod
    def from_schema(cls, schema: Mapping[str, Any]) -> "FormField":
        """Read a field's JSON schema; ValueError if a form cannot have it."""
        kind, choices = str(schema.get("type")), _choices(schema)
        if kind not in _LIMITS or (kind == "array" and not choices):
            raise ValueError(f"a form cannot have a field of the type {kind!r}")
        least, most = (_limit(schema.get(name)) for name in _LIMITS[kind][:2])
        return cls(kind, str(schema.get("format")), choices, least, most, schema.get("default"))

    @property
    def names(self) -> tuple[str, ...]:
        """What a person chooses from."""
        return ("yes", "no") if self.type == "boolean" else tuple(name for _, name in self.choices)

    @property
    def requirement(self) -> str:
        """What fits, in words."""
        if self.type == "array":
            words = f"some of {', '.join(self.names)}, with commas between them"
        elif self.choices:
            return f"one of {', '.join(self.names)}"
        else:
            words = _KINDS.get(self.format, _KINDS[self.type])
        limits = (("at least", self.least), ("at most", self.most))
        unit = _LIMITS[self.type][2]
        return words + "".join(f", {side} {it:.15g}{unit}" for side, it in limits if it is not None)

    @property
    def default_text(self) -> str:
        """The default as a person would type it; empty if there is none that fits."""
        value, named = self.default, dict(self.choices)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        text = "" if value is None else ", ".join(named.get(str(it), str(it)) for it in values)
        try:
            self.parse(text)
        except ValueError:
            return ""
        return text

    def parse(self, answer: str) -> Value:
        """Return the value that an answer stands for; ValueError if it does not fit."""
        value = self._value(answer.strip())
        size = len(value) if isinstance(value, str | list) else value
        if (self.least is not None and size < self.least) or (
            self.most is not None and size > self.most
        ):
            raise ValueError("it is outside the limits")
        return value

    def _value(self, answer: str) -> Value:
        if self.type == "array":
            return list(
                dict.fromkeys(self._choice(one) for one in answer.split(",") if one.strip())
            )
        if self.choices:
            return self._choice(answer)
        match self.type:
            case "boolean" if answer.lower() in _YES | _NO:
                return answer.lower() in _YES
            case "integer" if _INTEGER.fullmatch(answer):
                return int(answer)
            case "number" if _NUMBER.fullmatch(answer) and math.isfinite(float(answer)):
                return float(answer)
            case "string" if answer:
                _check_format(self.format, answer)
                return answer
            case _:
                raise ValueError("it is of another type")

    def _choice(self, answer: str) -> str:
        wanted = answer.strip()
        for plain in (str, str.casefold):
            for value, name in self.choices:
                if plain(wanted) in (plain(value), plain(name)):
                    return value
        raise ValueError("it is none of the choices")


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if schema.get("type") == "array":
        schema = cast("Mapping[str, Any]", schema.get("items") or {})
    options: Sequence[Mapping[str, Any]] = schema.get("oneOf") or schema.get("anyOf") or ()
    if options:
        named = [(one["const"], one.get("title")) for one in options if "const" in one]
    else:
        values: Sequence[Any] = schema.get("enum") or ()
        names: Sequence[Any] = schema.get("enumNames") or values
        named = list(zip(values, names, strict=False))
    return tuple((str(value), str(name or value)) for value, name in named)


def _limit(given: object) -> float | None:
    return given if isinstance(given, int | float) and not isinstance(given, bool) else None


def _check_format(name: str, answer: str) -> None:
    """Raise ValueError if text is not of a format."""
    match name:
        case "email":
            fits = _EMAIL.fullmatch(answer) is not None
        case "uri":
            fits = bool(urlsplit(answer).scheme) and not any(map(str.isspace, answer))
        case "date":
            fits = len(answer) == len(date.fromisoformat(answer).isoformat())
        case "date-time":
            fits = datetime.fromisoformat(answer).tzinfo is not None
        case _:
            fits = True
    if not fits:
        raise ValueError(f"it is not of the format {name}")
