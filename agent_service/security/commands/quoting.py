"""Finds where quotes, brackets and braces of shell text end, and decodes its escapes."""

import re
from collections.abc import Callable, Iterator

_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ESCAPE = re.compile(
    r"\\(?:x\{?([0-9a-fA-F]{1,2})\}?|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(0?[0-7]{1,3})|"
    r"c(.)|(.))",
    re.DOTALL,
)
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")
_MOST_WORDS = 64
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def decode_escapes(text: str) -> str:
    r"""The text with `\n`, `\x41`, `\101`, `\u0041` and their like decoded."""
    return _ESCAPE.sub(_decoded, text) if "\\" in text else text


def _decoded(match: re.Match[str]) -> str:
    two, four, eight, octal, control, single = match.groups()
    if two or four or eight:
        number = int(two or four or eight, 16)
    elif octal:
        number = int(octal, 8) & 0xFF
    elif control:
        number = ord(control) & 0x1F
    else:
        return _ESCAPES.get(single, match[0])
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else ""


def end_of(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed; the text's end if it never is."""
    opening, closing = text[start], _CLOSING[text[start]]
    depth, at = 0, start
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "'\"`":
            at = end_of_quote(text, at)
        elif char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if not depth:
                return at
        at += 1
    return len(text)


def end_of_quote(text: str, start: int) -> int:
    """Where the quote that opens at `start` is closed; the text's end if it never is."""
    quote, at = text[start], start + 1
    if quote == "'":
        found = text.find("'", at)
        return len(text) if found < 0 else found
    while at < len(text) and text[at] != quote:
        if text[at] == "\\":
            at += 1
        elif quote == '"' and text.startswith(("$(", "${"), at):
            at = end_of(text, at + 1)
        at += 1
    return min(at, len(text))


def behind(text: str, at: int) -> int:
    """Where the character ends that is at `at`, or the escape, quote or substitution there."""
    char = text[at]
    if char == "\\":
        return at + 2
    if char in "'\"`":
        return end_of_quote(text, at) + 1
    if (char == "$" and text[at + 1 : at + 2] in ("(", "{")) or (
        char in "<>" and text[at + 1 : at + 2] == "("
    ):
        return end_of(text, at + 1) + 1
    return at + 1


def find_plain(text: str, wanted: str, at: int = 0) -> int:
    """Where one of the characters is outside of quotes and substitutions; -1 where it is not."""
    while at < len(text):
        if text[at] in wanted:
            return at
        at = behind(text, at)
    return -1


def split_words(text: str) -> list[str]:
    """The words of text, which blanks part outside of quotes and substitutions."""
    found: list[str] = []
    at = 0
    while at < len(text):
        end = find_plain(text, " \t\n\r\f\v", at)
        end = len(text) if end < 0 else end
        if end > at:
            found.append(text[at:end])
        at = end + 1
    return found


def braces(word: str, spend: Callable[[int], None]) -> list[str]:
    """The words that a word's braces make, itself where it has none; `spend` counts the work."""
    if "{" not in word:
        return [word]
    words = [word]
    done: list[str] = []
    while words and len(done) + len(words) < _MOST_WORDS:
        first = words.pop(0)
        made = _expand_first(first, spend)
        if made is None:
            done.append(first)
        else:
            words = made + words
    return done + words


def _expand_first(word: str, spend: Callable[[int], None]) -> list[str] | None:
    for start, end in _brace_spans(word, spend):
        inner = word[start + 1 : end]
        parts = _alternatives(inner)
        if parts is not None:
            return [word[:start] + part + word[end + 1 :] for part in parts[:_MOST_WORDS]]
    return None


def _brace_spans(word: str, spend: Callable[[int], None]) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(word):
        char = word[at]
        if char == "\\":
            at += 1
        elif char in "'\"`":
            at = end_of_quote(word, at)
        elif word.startswith(("${", "$("), at):
            at = end_of(word, at + 1)
        elif char == "{":
            end = end_of(word, at)
            spend(end - at)
            if end < len(word):
                yield at, end
        at += 1


def _alternatives(inner: str) -> list[str] | None:
    if (found := _RANGE.fullmatch(inner)) is not None:
        return _range(found[1], found[2])
    parts, begin, at = [], 0, 0
    while at < len(inner):
        char = inner[at]
        if char == "\\":
            at += 1
        elif char in "'\"`":
            at = end_of_quote(inner, at)
        elif char in "{(":
            at = end_of(inner, at)
        elif char == ",":
            parts.append(inner[begin:at])
            begin = at + 1
        at += 1
    return [*parts, inner[begin:]] if parts else None


def _range(first: str, last: str) -> list[str] | None:
    if first.isalpha() and last.isalpha():
        return [chr(each) for each in _steps(ord(first), ord(last))]
    if first.isalpha() or last.isalpha():
        return None
    return [str(each) for each in _steps(int(first[:9]), int(last[:9]))[:_MOST_WORDS]]


def _steps(low: int, high: int) -> range:
    return range(low, high + 1) if high >= low else range(low, high - 1, -1)
