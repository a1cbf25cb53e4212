"""Finds the ends of quotes, brackets and braces in shell text, and decodes escapes."""

import re
from collections.abc import Callable
from itertools import pairwise

_ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ESCAPE = re.compile(
    r"\\(?:x\{?([0-9a-fA-F]{1,2})\}?|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(0?[0-7]{1,3})|(.))",
    re.DOTALL,
)
_MOST_WORDS = 64
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def decode_escapes(text: str) -> str:
    r"""The text with `\n`, `\x41`, `\101`, `\u0041` and similar escapes decoded."""
    return _ESCAPE.sub(_decoded, text) if "\\" in text else text


def _decoded(match: re.Match[str]) -> str:
    two, four, eight, octal, single = match.groups()
    if two or four or eight:
        number = int(two or four or eight, 16)
    elif octal:
        number = int(octal, 8) & 0xFF
    else:
        return _ESCAPES.get(single, match[0])
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else ""


def end_of(text: str, start: int) -> int:
    """The index of the closing bracket for the one at `start`; the text's end if there is none."""
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
    """The index of the closing quote for the one at `start`; the text's end if there is none."""
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
    """The index after the character, escape, quote or substitution at `at`."""
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
    """The index of one of the characters outside quotes and substitutions; -1 if not found."""
    while at < len(text):
        if text[at] in wanted:
            return at
        at = behind(text, at)
    return -1


def split_words(text: str) -> list[str]:
    """The words of text, split at blanks outside quotes and substitutions."""
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
    """The words of a brace expansion; `spend` counts the work."""
    words, done = [word], list[str]()
    while words and len(done) + len(words) < _MOST_WORDS:
        first = words.pop(0)
        spend(len(first))
        made = _alternatives(first) if "{" in first else []
        words = made + words
        done += [] if made else [first]
    return done + words


def _alternatives(word: str) -> list[str]:
    edges, at = list[int](), 0
    while at < len(word):
        if word[at] == "{":
            edges = [at]
        elif word[at] == "," and edges:
            edges.append(at)
        elif word[at] == "}" and len(edges) > 1:
            parts = (word[begin + 1 : end] for begin, end in pairwise([*edges, at]))
            return [word[: edges[0]] + part + word[at + 1 :] for part in parts][:_MOST_WORDS]
        at = behind(word, at)
    return []
