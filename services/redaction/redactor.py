"""Removes secrets from text before it leaves the process: known values and known shapes."""

import base64
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import AnyStr, cast
from urllib.parse import quote, quote_plus

from services.redaction.secret_shapes import SHAPES

Span = tuple[int, int]

MASK = "[REDACTED]"

# Shorter values would match ordinary words.
MIN_SECRET_CHARS = 8

HEAD_CHARS = 4
_PASSING = 32
"""How many temporary secrets are kept; older ones have long expired."""


class KnownSecrets:
    """The values known to be secret, in all their spellings."""

    def __init__(self) -> None:
        self.spellings = Spellings()
        """Replaced as a whole on changes, so that reading threads see a complete set."""
        self._lasting: dict[str, None] = {}
        self._passing: dict[str, None] = {}

    def add(self, values: Iterable[str]) -> None:
        """Add values, except those too short to be distinctive."""
        new = {value: None for value in map(str.strip, values) if len(value) >= MIN_SECRET_CHARS}
        if new.keys() - self._lasting.keys():
            self._lasting = {**self._lasting, **new}
            self._spell()

    def add_passing(self, value: str) -> None:
        """Add a temporary value, such as a token; only the latest ones are kept."""
        value = value.strip()
        if len(value) >= MIN_SECRET_CHARS and value not in self._passing:
            self._passing = dict.fromkeys([*self._passing, value][-_PASSING:])
            self._spell()

    def _spell(self) -> None:
        self.spellings = Spellings((*self._lasting, *self._passing))


class Redactor:
    """Replaces secrets in text; one per process."""

    def __init__(
        self,
        secrets: Iterable[str] = (),
        on_redacted: Callable[[int], None] | None = None,
        known: KnownSecrets | None = None,
    ) -> None:
        """`known` is shared with another redactor."""
        self.known = known or KnownSecrets()
        self.known.add(secrets)
        self._on_redacted = on_redacted

    def counted(self, on_redacted: Callable[[int], None]) -> "Redactor":
        """Return one for a service with the same secrets and a counter of replacements."""
        return Redactor(on_redacted=on_redacted, known=self.known)

    def redact(self, text: str) -> str:
        return self._without(text, self.spans(text))

    def redact_program(self, text: str) -> str:
        """Replace secrets in text that is executed or stored as is, where fewer shapes count."""
        return self._without(text, self.spans(text, is_program=True))

    def spans(self, text: str, *, is_program: bool = False) -> list[Span]:
        """Return where a text has secrets, in order."""
        return _merged([*self._find(text, is_program=is_program)]) if text else []

    def _find(self, text: str, *, is_program: bool) -> Iterator[Span]:
        yield from self.known.spellings.find(text)
        for shape in SHAPES:
            if (is_program and not shape.in_programs) or not shape.may_be_in(text):
                continue
            for match in shape.pattern.finditer(text):
                if shape.is_secret(match):
                    yield match.span(shape.group)

    def _without(self, text: str, spans: list[Span]) -> str:
        if not spans:
            return text
        parts, at = list[str](), 0
        for start, end in spans:
            parts += (text[at:start], MASK)
            at = end
        new = sum(text[start:end] != MASK for start, end in spans)
        if new and self._on_redacted is not None:
            self._on_redacted(new)
        return "".join((*parts, text[at:]))


def changed_texts(value: object, change: Callable[[str], str], but: Container[str] = ()) -> object:
    """Apply `change` to all texts in a JSON value, except in fields with the names `but`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [changed_texts(each, change, but) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {
            name: each if name in but else changed_texts(each, change, but)
            for name, each in fields.items()
        }
    return value


def _merged(found: list[Span]) -> list[Span]:
    if len(found) < 2:
        return found
    found.sort()
    merged = [found[0]]
    for start, end in found[1:]:
        last = merged[-1]
        if start < last[1]:
            merged[-1] = (last[0], max(last[1], end))
        else:
            merged.append((start, end))
    return merged


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")
_NOT_BASE64 = bytes({*range(256)} - {ord(c) for c in map(chr, range(128)) if _BASE64.match(c)})
_HEX = re.compile(r"[0-9A-Fa-f]")
_NOT_HEX = bytes({*range(256)} - set(b"0123456789ABCDEFabcdef"))
_LINE_ENDS = ("\\n", "\\r")
"""As written in JSON."""
_HEX_MARKS = ("0x", "0X")


class Spellings:
    """The ways in which values can be spelled in text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        every = [(value, value.encode("utf-8", "surrogateescape")) for value in values]
        self.plain = _unique(each for value, data in every for each in _plain(value, data))
        """Searched as they are."""
        self.in_base64 = _unique(each for _, data in every for each in _in_base64(data))
        self.in_hex = _unique(data.hex() for _, data in every)
        self._base64 = [each.encode() for each in self.in_base64]
        self._hex = [each.encode() for each in self.in_hex]

    @cached_property
    def heads(self) -> Mapping[str, Sequence[str]]:
        """All of them by their first four characters, to test quickly for a beginning."""
        found: dict[str, list[str]] = {}
        in_capitals = [each.upper() for each in self.in_hex]
        for each in (*self.plain, *self.in_base64, *self.in_hex, *in_capitals):
            found.setdefault(each[:HEAD_CHARS], []).append(each)
            for size in range(1, HEAD_CHARS):
                found.setdefault(each[:size], [])
        return found

    def find(self, text: str) -> Iterator[Span]:
        """Yield matches in a text; line breaks and separators may split base64 and digits."""
        for value in self.plain:
            if value in text:
                yield from _occurrences(text, value)
        if self._hex:
            yield from _between(text, self._base64, _BASE64, _NOT_BASE64, _LINE_ENDS)
            yield from _between(text, self._hex, _HEX, _NOT_HEX, _HEX_MARKS)


def _between(
    text: str, values: Sequence[bytes], letter: re.Pattern[str], others: bytes, marks: Sequence[str]
) -> Iterator[Span]:
    """Yield matches of values split by characters outside of their alphabet."""
    for mark in marks:
        text = text.replace(mark, "  ")
    letters = text.encode("utf-8", "replace").translate(None, others)
    if letter is _HEX:
        letters = letters.lower()
    found = [each for each in values if len(each) <= len(letters) and each in letters]
    if found:
        places = [match.start() for match in letter.finditer(text)]
        for value in found:
            for first, last in _occurrences(letters, value):
                yield places[first], places[last - 1] + 1


def _occurrences(text: AnyStr, value: AnyStr) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _plain(value: str, data: bytes) -> Iterator[str]:
    """Yield the value itself, and as written in JSON, Python and URLs."""
    yield value
    in_python = repr(value), repr(f'"{value}')[1:]  # which escapes ' in a text that has both
    for plain in (json.dumps(value), json.dumps(value, ensure_ascii=False), *in_python):
        yield plain[1:-1]
        # JSON in JSON.
        yield json.dumps(plain[1:-1])[1:-1]
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)


def _in_base64(data: bytes) -> Iterator[str]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            yield _base64_inside(data, offset, encode)


def _base64_inside(data: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """Return the stable part of the base64 of `data` at `offset` (modulo 3) in the input."""
    encoded = encode(bytes(offset) + data).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(data)) * 8 // 6
    return encoded[first:whole]
