"""What somebody looks for: words that all have to be there, "phrases", and `OR` between two."""

import re
from itertools import chain

from msgspec import Struct

from agent_service.search.terms import words
from services.errors import InvalidArgument

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
