"""Writes a text down as what its words mean, one letter a word, so that orders are found in it
whatever their wording and their language is.
"""

import re
import unicodedata
from itertools import pairwise

from msgspec import Struct

from agent_service.security.spelling import fold
from agent_service.security.threat_lexicon import MEANINGS, PHRASES, WITHOUT_BLANKS

_TOKEN = re.compile(
    r"(?P<place>https?://[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64})"
    r"|(?P<word>[^\W_](?:[^\W_]|[\u0300-\u036f\u064b-\u0652\u0900-\u0dff])*(?:['\u2019][^\W_]+)?)"
    r"|(?P<end>;|[.!?\u3002\uff01\uff1f](?=\W|$)|\n\s*(?:\n|[-*#>+|]|\d+[.)])|[|\u0964])"
    r"|(?P<mark>[,:\u3001\uff0c])"
)
_WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_MISSPELT = (
    "ignore disregard previous instruction instructions guidelines directives restrictions system"
)
_LONGEST_WORD = 40
_MARKS = frozenset("|,:@")
UNKNOWN = "."
PLACE = "@"
END = "|"


class Meanings(Struct, frozen=True):
    """A text as letters, and where in it each of them begins and ends."""

    letters: str
    places: tuple[tuple[int, int], ...]


def bare(word: str) -> str:
    """A word as it is looked up: without accents, look-alike letters folded."""
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFD", word.lower().replace("\u2019", "'"))
    return fold("".join(char for char in apart if not unicodedata.category(char).startswith("M")))


def _words() -> dict[str, str]:
    found: dict[str, str] = {}
    for letter, text in MEANINGS.items():
        for word in text.split():
            found.setdefault(bare(word), letter)
    for word in _MISSPELT.split():
        letter = found[word]
        for at in range(1, len(word)):
            found.setdefault(word[:at] + word[at + 1 :], letter)
            swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
            found.setdefault(swapped, letter)
    return found


def _phrases() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for letter, text in PHRASES.items():
        for phrase in text.split("|"):
            first, *rest = (bare(word) for word in _split(phrase))
            found.setdefault(first, []).append((tuple(rest), letter))
    for each in found.values():
        each.sort(key=lambda known: -len(known[0]))
    return found


def _split(phrase: str) -> list[str]:
    return [match["word"] for match in _TOKEN.finditer(phrase) if match["word"]]


class Reader:
    """Writes texts down as letters; its tables are costly to make."""

    def __init__(self) -> None:
        self._words = _words()
        self._phrases = _phrases()
        wide = [
            (word, letter) for letter, text in WITHOUT_BLANKS.items() for word in text.split("|")
        ]
        self._wide = {bare(word): letter for word, letter in wide}
        longest = sorted(self._wide, key=len, reverse=True)
        self._is_wide = re.compile("|".join(map(re.escape, longest)))

    def read(self, text: str) -> Meanings:
        """The letters of a text, which is in lower case."""
        words: list[str] = []
        places: list[tuple[int, int]] = []
        for match in _TOKEN.finditer(text):
            word = match["word"]
            if match["place"]:
                words.append(PLACE)
                places.append(match.span())
            elif word is None:
                words.append(END if match["end"] else match["mark"])
                places.append(match.span())
            elif word.isascii() or not _WIDE.search(word):
                words.append(bare(word[:_LONGEST_WORD]).removesuffix("'s"))
                places.append(match.span())
            else:
                self._read_wide(word, match.start(), words, places)
        return self._lettered(words, places)

    def _read_wide(
        self, run: str, begin: int, words: list[str], places: list[tuple[int, int]]
    ) -> None:
        """The words of a run that has no blanks; what is between them counts by its length."""
        apart = bare(run)
        if len(apart) != len(run):
            apart = run
        ends = [0]
        for match in self._is_wide.finditer(apart):
            ends += match.span()
        for number, (at, to) in enumerate(pairwise([*ends, len(run)])):
            if number % 2:
                words.append("=" + self._wide[apart[at:to]])
                places.append((begin + at, begin + to))
            else:
                count = min((to - at + 1) // 2, 4)
                words += [UNKNOWN] * count
                places += [(begin + at, begin + to)] * count

    def _lettered(self, words: list[str], places: list[tuple[int, int]]) -> Meanings:
        letters, kept = [END], [(0, 0)]
        at = 0
        while at < len(words):
            word = words[at]
            length, letter = 1, self._words.get(word, UNKNOWN)
            if word[0] == "=":
                letter = word[1]
            elif word in _MARKS:
                letter = word
            for rest, meaning in self._phrases.get(word, ()):
                if tuple(words[at + 1 : at + 1 + len(rest)]) == rest:
                    length, letter = 1 + len(rest), meaning
                    break
            if letter == UNKNOWN and word.endswith("gpt"):
                letter = "A"
            letters.append(letter)
            kept.append((places[at][0], places[at + length - 1][1]))
            at += length
        letters.append(END)
        kept.append((kept[-1][1], kept[-1][1]))
        return Meanings("".join(letters), tuple(kept))
