"""Forms of MCP servers: what a field asks for, in words, and a person's answer as its value."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

Value = str | int | float | bool | list[str]

_YES, _NO = frozenset({"yes", "true", "y", "1"}), frozenset({"no", "false", "n", "0"})
_KINDS = {
    "boolean": "yes or no",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "",
}
_HINTS = {
    "format": "format",
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}
"""What a schema requires besides the type, which the server checks."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


class FormField(Struct, frozen=True):
    """A field of a form, as MCP allows it."""

    type: str
    choices: tuple[tuple[str, str], ...]
    """Values to choose from, each with its name."""
    default: Any
    hints: tuple[str, ...]
    """What an answer must keep to besides."""

    @classmethod
    def from_schema(cls, schema: Mapping[str, Any]) -> "FormField":
        """Read a field's JSON schema; ValueError if a form cannot have it."""
        kind, choices = str(schema.get("type")), _choices(schema)
        if kind not in _KINDS or (kind == "array" and not choices):
            raise ValueError(f"a form cannot have a field of the type {kind!r}")
        hints = (f"{words} {schema[key]}" for key, words in _HINTS.items() if key in schema)
        return cls(kind, choices, schema.get("default"), tuple(hints))

    @property
    def names(self) -> tuple[str, ...]:
        """What a person chooses from."""
        return ("yes", "no") if self.type == "boolean" else tuple(name for _, name in self.choices)

    @property
    def requirement(self) -> str:
        """What fits, in words."""
        words = _KINDS[self.type]
        if self.type == "array":
            words = f"some of {', '.join(self.names)}, with commas between them"
        elif self.choices:
            words = f"one of {', '.join(self.names)}"
        return ", ".join((words, *self.hints))

    @property
    def default_text(self) -> str:
        """The default as a person reads it; empty if there is none."""
        value, named = self.default, dict(self.choices)
        if isinstance(value, bool):
            return "yes" if value else "no"
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        return "" if value is None else ", ".join(named.get(str(it), str(it)) for it in values)

    def parse(self, answer: str) -> Value:
        """Return the value that an answer stands for; ValueError if it does not fit."""
        answer = answer.strip()
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
