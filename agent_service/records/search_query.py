"""What people search for, and the terms under which texts are found."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from msgspec import Struct

from services.errors import InvalidArgument

SPOKEN_CHARS = 20_000
"""Of what a person or the model says, so much is indexed."""
TOOL_HEAD_CHARS, TOOL_TAIL_CHARS = 3_000, 1_000
"""Of what a tool says: the most of it is a listing that nobody looks for by its words."""
CALL_CHARS = 1_000
"""Of the arguments of a tool's call."""
WORD_CHARS = 64
"""A longer word is cut: it is a key, a digest or a picture."""

_WORD = re.compile(r"[^\W_]+")
_ALONE = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])"
)
"""Letters of scripts that put no space between words: each is looked for as a word."""


def words(text: str) -> list[str]:
    """The words of a text, as they are indexed."""
    if text.isascii():
        folded = text.lower()
    else:
        spread = _spread(text)
        folded = "".join(letter for letter in spread if unicodedata.category(letter) != "Mn")
        folded = _ALONE.sub(r" \1 ", folded)
    return [word[:WORD_CHARS] for word in _WORD.findall(folded)]


def _spread(text: str) -> str:
    """The text in small and plain letters, also where one of the two makes work for the other.

    A capital that was left over could pass for the mark of a profile or a role.
    """
    while (spread := unicodedata.normalize("NFKD", text).casefold()) != text:
        text = spread
    return text


def terms(text: str) -> str:
    """The words of a text in a row, as a database indexes them."""
    return " ".join(words(text))


def searchable(message: Mapping[str, Any]) -> str:
    """What of a message, in the form of the chat completions API, it is to be found by."""
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
    """The text of a message's content, which may be one of several parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(_texts(cast("Sequence[Any]", content)))
    return ""


def said_and_called(content: Mapping[str, Any]) -> str:
    """A message as text: what it says, and what it calls."""
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
    """So much of a text around the first of some words, on one line; its beginning without one."""
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
    """Each group has to be there, by one of its phrases; a phrase is words in a row."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def phrases(self) -> list[str]:
        """All phrases."""
        return list(chain.from_iterable(self.groups))

    @property
    def words(self) -> frozenset[str]:
        """All words."""
        return frozenset(word for phrase in self.phrases for word in phrase.split())


def parse(text: str) -> Query:
    """The query that a text is; InvalidArgument only where it has no words, or too many."""
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
        # What is one word to a person, such as a path, may be several here: they are in a row.
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
