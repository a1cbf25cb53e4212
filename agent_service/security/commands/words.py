"""Expands shell words to arguments, as far as the text determines them."""

import re
from collections.abc import Callable, MutableMapping
from fnmatch import translate

from msgspec import Struct, field

from agent_service.security.commands.marks import UNKNOWN, marks
from agent_service.security.commands.paths import HOME
from agent_service.security.commands.quotes import (
    braces,
    decode_escapes,
    end_of,
    end_of_quote,
    find_plain,
)
from agent_service.security.commands.scene import TooMuch

_BEFORE_TILDE = re.compile(r"(?:[A-Za-z_]\w*=)?(?=~)")
_TILDE = re.compile(r"~(\w*)(?=/|$|:)")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_PARAMETER = re.compile(r"(?P<bang>!?)(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])")
_OPERATOR = re.compile(r":?[-=+?]|##?|%%?|//?|\^\^|,,|:")
_FOLDED = {"^^": str.upper, ",,": str.lower}
_SLICE = re.compile(r"\s*(?P<from>\(?\s*-?\d+\s*\)?)\s*(?::\s*(?P<count>-?\d+))?")
_LONGEST = 65_536
_EACH = 10
"""The base cost of expanding a word."""
_DEEPEST = 24  # nesting limit of parameters in words
_TRIMMING = 2_000
"""The cost of trimming the beginning or end of a value."""
_WORDS = re.compile(r"[^\\'\"$`<>]+")
_WITHIN_QUOTES = re.compile(r"[^\\$`]+")

_GIVEN = (
    "PWD=. SHELL=/bin/bash BASH=/bin/bash USER=user LOGNAME=user PATH=/usr/bin:/bin "
    "TMPDIR=/tmp TMP=/tmp TEMP=/tmp HOSTTYPE=x86_64 OSTYPE=linux-gnu RANDOM=1 $=4242 ?=0 #=0 "
    "!=4242 -=himBHs 0=bash @= *= UID=1000 EUID=1000 LINENO=1 PPID=4242 EDITOR=vi PAGER=less "
    f"HOME={HOME} HERMES_HOME={HOME}/.hermes XDG_CONFIG_HOME={HOME}/.config "
    f"XDG_DATA_HOME={HOME}/.local/share XDG_CACHE_HOME={HOME}/.cache "
    "1= 2= 3= 4= 5= 6= 7= 8= 9="
)
GIVEN = {
    "IFS": " ",
    **{name: value for name, _, value in (each.partition("=") for each in _GIVEN.split())},
}
"""Typical variables of a new shell."""


class Words(Struct):
    """Expands words with the variables that the text has set so far."""

    run: Callable[[str], str]
    """Returns the output of a command substitution."""
    keep: Callable[[str, str], str]
    """Returns the path of a process substitution that is read (`<`) or written (`>`)."""
    spend: Callable[[int], None]
    variables: MutableMapping[str, str] = field(default_factory=dict[str, str])
    fallbacks: set[str] = field(default_factory=set[str])
    """Values that stand for unknown variables."""
    depth: int = 0

    def fields(self, word: str) -> list[str]:
        self.spend(_EACH + len(word))
        found: list[str] = []
        for each in braces(word, self.spend):
            found += _Word(self, each).fields()
        return found

    def one(self, word: str) -> str:
        """The word as a single text, such as a value or a file name."""
        return " ".join(self.fields(word)).replace(UNKNOWN * 2, UNKNOWN)

    def quoted(self, text: str) -> str:
        """Text expanded as in double quotes, such as a here-document."""
        if "$" not in text and "`" not in text and "\\" not in text:
            return text
        self.spend(len(text))
        return _Word(self, text).quoted()

    def value(self, name: str) -> str | None:
        """A variable's value; None if unknown."""
        found = self.variables.get(name)
        return GIVEN.get(name) if found is None else found

    def parameter(self, inner: str) -> str:
        self.spend(len(inner))
        match = _PARAMETER.match(inner)
        name, rest = (match["name"], inner[match.end() :]) if match else ("", inner)
        value = self.value(name)
        if match and match["bang"] and value is not None:
            value = self.value(value)
        if rest.startswith("[") and (end := find_plain(rest, "]", 1)) > 0:
            # The index may be unknown, so all elements are considered.
            self._nested(rest[1:end])
            rest = rest[end + 1 :]
        operator = _OPERATOR.match(rest)
        operand = self._nested(rest[operator.end() :] if operator else rest)
        if operator:
            return self._operated(name, value, operator[0], operand)
        return UNKNOWN if value is None or rest else value

    def _operated(self, name: str, value: str | None, operator: str, operand: str) -> str:
        if operator[-1] in "-=":
            if value is None:
                operand = operand or UNKNOWN
                self.fallbacks.add(operand)
            if operator[-1] == "=" and not value:
                self.variables[name] = operand
            return value or operand
        if operator[-1] == "+":
            return operand if value or (value is None and marks(operand)) else ""
        if value is None:
            return UNKNOWN
        if operator[0] in "#%":
            self.spend(_TRIMMING)
            return _trimmed(value, operator, operand)
        if operator[0] == "/":
            pattern, _, to = operand.partition("/")
            return _replaced(value, pattern, to, everywhere=operator == "//")
        if operator in _FOLDED:
            return _FOLDED[operator](value)
        slice_ = _SLICE.fullmatch(operand) if operator == ":" else None
        return value if slice_ is None else _sliced(value, slice_)

    def _nested(self, text: str) -> str:
        if self.depth >= _DEEPEST:
            raise TooMuch
        self.depth += 1
        try:
            return self.one(text)
        finally:
            self.depth -= 1


class _Word:
    def __init__(self, words: Words, text: str) -> None:
        self._words = words
        self._text = text
        self._at: int = 0
        self._done: list[str] = []
        self._current = ""
        self._begun = False

    def fields(self) -> list[str]:
        text = self._text
        if "~" in text and (named := _BEFORE_TILDE.match(text)):
            self._add(named[0]) if named[0] else None
            self._at = named.end()
            self._tilde()
        while self._at < len(text) and len(self._current) < _LONGEST:
            if plain := _WORDS.match(text, self._at):
                self._add(plain[0])
                self._at = plain.end()
            else:
                self._next(text[self._at])
        if self._begun:
            self._done.append(self._current)
        return self._done

    def quoted(self) -> str:
        return self._inside(self._text)

    def _tilde(self) -> None:
        match = _TILDE.match(self._text, self._at)
        if match is not None:
            self._add("/root" if match[1] == "root" else HOME)
            self._at = match.end()

    def _next(self, char: str) -> None:
        text, at = self._text, self._at
        if char == "\\":
            self._add(text[at + 1 : at + 2].replace("\n", ""))
            self._at = at + 2
        elif char == "'":
            end = end_of_quote(text, at)
            self._add(text[at + 1 : end])
            self._at = end + 1
        elif char == '"':
            end = end_of_quote(text, at)
            self._double(text[at + 1 : end])
            self._at = end + 1
        elif char == "$" and text.startswith("$'", at):
            self._ansi(at + 2)
        elif char == "$" and text.startswith('$"', at):
            self._at = at + 1
        elif char in "$`":
            value = self._dollar(text)
            self._split(value)
        elif char in "<>" and text.startswith("(", at + 1):
            end = end_of(text, at + 1)
            self._add(self._words.keep(char, text[at + 2 : end]))
            self._at = end + 1
        else:
            self._add(char)
            self._at = at + 1

    def _double(self, inner: str) -> None:
        if re.fullmatch(r"\$\{?[@*]\}?|\$\{\w+\[[@*]\]\}", inner):
            self._split(self._inside(inner))
        else:
            self._add(self._inside(inner))

    def _inside(self, inner: str) -> str:
        saved, self._text, self._at = (self._text, self._at), inner, 0
        found: list[str] = []
        while self._at < len(inner):
            char = inner[self._at]
            if char == "\\" and inner[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n"):
                found.append(inner[self._at + 1].replace("\n", ""))
                self._at += 2
            elif char in "$`":
                found.append(self._dollar(inner))
            else:
                plain = _WITHIN_QUOTES.match(inner, self._at)
                found.append(plain[0] if plain else char)
                self._at += len(found[-1])
        self._text, self._at = saved
        return "".join(found)

    def _ansi(self, start: int) -> None:
        at = start
        while at < len(self._text) and self._text[at] != "'":
            at += 2 if self._text[at] == "\\" else 1
        self._add(decode_escapes(self._text[start:at]))
        self._at = at + 1

    def _dollar(self, text: str) -> str:
        value = self._value(text)
        self._words.spend(len(value))
        return value

    def _value(self, text: str) -> str:
        """The expansion at a dollar or backquote; moves past it."""
        at = self._at
        if text[at] == "`":
            end = end_of_quote(text, at)
            self._at = end + 1
            return self._words.run(re.sub(r"\\([`$\\])", r"\1", text[at + 1 : end]))
        if text.startswith(("$(", "${"), at):
            end = end_of(text, at + 1)
            self._at = end + 1
            inner = text[at + 2 : end]
            if text[at + 1] == "{":
                return self._words.parameter(inner)
            if not inner.startswith("("):
                return self._words.run(inner)
            number = self._words.quoted(inner[1:-1]).strip()
            return number if number.isdigit() else UNKNOWN
        match = _NAME.match(text, at + 1)
        if match is None:
            self._at = at + 1
            return "$"
        self._at = match.end()
        value = self._words.value(match[0])
        return UNKNOWN if value is None else value

    def _add(self, text: str) -> None:
        self._current += text
        self._begun = True

    def _split(self, value: str) -> None:
        if not value:
            return
        separators = self._words.variables.get("IFS") or " "
        if not separators.isspace():
            value = value.translate({ord(each): " " for each in separators})
        parts = value.split()
        if value[0].isspace():
            self._end()
        for number, part in enumerate(parts):
            if number:
                self._end()
            self._add(part + UNKNOWN if marks(part) else part)  # may be several words
        if parts and value[-1].isspace():
            self._end()

    def _end(self) -> None:
        if self._begun:
            self._done.append(self._current)
        self._current, self._begun = "", False


def _sliced(value: str, match: re.Match[str]) -> str:
    if marks(value):
        return marks(value)
    start = int(match["from"].strip("() ")[:9])
    count = None if match["count"] is None else int(match["count"][:9])
    tail = value[start:]
    return tail if count is None else tail[:count]


def _trimmed(value: str, operator: str, pattern: str) -> str:
    matcher, length = re.compile(translate(pattern[:256])), min(len(value), 256)
    counts = range(length + 1) if len(operator) == 1 else range(length, -1, -1)
    for count in counts:
        part = value[:count] if operator[0] == "#" else value[len(value) - count :]
        if matcher.fullmatch(part):
            return value[count:] if operator[0] == "#" else value[: len(value) - count]
    return value


def _replaced(value: str, pattern: str, to: str, *, everywhere: bool) -> str:
    if not pattern:
        return value
    if not set(pattern) & set("*?["):
        return value.replace(pattern, to) if everywhere else value.replace(pattern, to, 1)
    return marks(value) or UNKNOWN
