"""Search queries, and the terms under which texts are indexed."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from msgspec import Struct

from services.errors import InvalidArgument

SPOKEN_CHARS = 20_000
"""The indexed part of what a person or the model says."""
TOOL_HEAD_CHARS, TOOL_TAIL_CHARS = 3_000, 1_000
"""The indexed part of a tool's result: most of it is listings that nobody searches for."""
CALL_CHARS = 1_000
"""The indexed part of a tool call's arguments."""
WORD_CHARS = 64
"""Longer words are cut: they are keys, digests or pictures."""

_WORD = re.compile(r"[^\W_]+")
_ALONE = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])"
)
"""Letters of scripts without spaces between words: each is indexed as a word."""


def words(text: str) -> list[str]:
    """Return the words of a text as they are indexed."""
    if text.isascii():
        folded = text.lower()
    else:
        spread = _spread(text)
        folded = "".join(letter for letter in spread if unicodedata.category(letter) != "Mn")
        folded = _ALONE.sub(r" \1 ", folded)
    return [word[:WORD_CHARS] for word in _WORD.findall(folded)]


def _spread(text: str) -> str:
    """Return decomposed, case-folded text; either step can make work for the other.

    A capital that was left over could pass for the mark of a profile or a role.
    """
    while (spread := unicodedata.normalize("NFKD", text).casefold()) != text:
        text = spread
    return text


def terms(text: str) -> str:
    """Return a text's words joined as a database indexes them."""
    return " ".join(words(text))


def searchable(message: Mapping[str, Any]) -> str:
    """Return the searchable text of a message in the form of the chat completions API."""
    text = text_of(message.get("content"))
    if message.get("role") == "tool":
        if len(text) > TOOL_HEAD_CHARS + TOOL_TAIL_CHARS:
            return f"{text[:TOOL_HEAD_CHARS]}\n{text[-TOOL_TAIL_CHARS:]}"
        return text
    parts = [text[:SPOKEN_CHARS]]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(f"{function['name']} {function['arguments'][:CALL_CHARS]}")
    return "\n".join(parts)[:SPOKEN_CHARS]


def text_of(content: Any) -> str:
    """Return the text of a message's content, which may have several parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(_texts(cast("Sequence[Any]", content)))
    return ""


def text_and_calls(content: Mapping[str, Any]) -> str:
    """Return a message's text and tool calls as text."""
    calls = (call["function"] for call in content.get("tool_calls", ()))
    called = [f"{function['name']} {function['arguments']}" for function in calls]
    return "\n".join(filter(None, (text_of(content["content"]), *called)))


def _texts(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            text = cast("Mapping[str, Any]", part).get("text")
            if isinstance(text, str):
                yield text


def excerpt(text: str, wanted: frozenset[str], chars: int) -> str:
    """Return a one-line excerpt around the first of the words; without one, the beginning."""
    at = next(
        (found.start() for found in _WORD.finditer(text) if wanted.intersection(words(found[0]))), 0
    )
    begin = max(0, at - chars // 3)
    end = min(len(text), begin + chars)
    begin = max(0, end - chars)
    shown = " ".join(text[begin:end].split())
    return f"{'… ' if begin else ''}{shown}{' …' if end < len(text) else ''}"


MAX_CHARS = 1000
MAX_WORDS = 32

_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')
_OR = "OR"


class Query(Struct, frozen=True):
    """All groups must match, each by one of its phrases; a phrase is a sequence of words."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def phrases(self) -> list[str]:
        return list(chain.from_iterable(self.groups))

    @property
    def words(self) -> frozenset[str]:
        return frozenset(word for phrase in self.phrases for word in phrase.split())


def parse(text: str) -> Query:
    """Parse a query; InvalidArgument if it has no words or too many."""
    if len(text) > MAX_CHARS:
        raise InvalidArgument(
            f"a query has at most {MAX_CHARS} characters", fields={"query": f"{MAX_CHARS} at most"}
        )
    groups: list[list[str]] = []
    joins = False
    for found in _PART.finditer(text):
        quoted, word = found.groups()
        if word == _OR:
            joins = bool(groups)
            continue
        # One word to a person, such as a path, may be several here: they form a phrase.
        phrase = " ".join(words(quoted if word is None else word))
        if not phrase:
            continue
        if joins:
            groups[-1].append(phrase)
        else:
            groups.append([phrase])
        joins = False
    count = sum(len(phrase.split()) for group in groups for phrase in group)
    if not 0 < count <= MAX_WORDS:
        problem = f"at most {MAX_WORDS} words" if count else "a word to look for"
        raise InvalidArgument(f"a query has {problem}", fields={"query": problem})
    return Query(tuple(map(tuple, groups)))
