"""Reads sentences as the senses of their words, and finds those that together make an attack,
in whatever order and wording they stand.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent_service.security.threat_combinations import COMBINATIONS
from agent_service.security.threat_nouns import NOUNS
from agent_service.security.threat_senses import WORDS

_TOKEN = re.compile(
    r"(?P<place>https?://[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])|(?<!\w)\+\d[\d ()-]{7,16}\d)"
    r"|(?P<private>(?<!-i )(?:~|\$home|\$\{home\}|/root|/home/[\w.-]{1,64})/\.(?:ssh|aws|gnupg"
    r"|kube|docker|netrc|config/(?:gh|gcloud)|npmrc|pypirc|git-credentials|env|cursor|mozilla"
    r"|azure|password-store|pgpass|my\.cnf|bash_history|zsh_history)(?![\w./-]{0,99}\.pub\b)"
    r"(?:/[\w.-]{1,64}){0,6}|/etc/(?:shadow|passwd|sudoers)|id_(?:rsa|ed25519|ecdsa)(?!\.pub)"
    r"|/proc/self/environ|(?<![\w.])\.(?:env|netrc|npmrc|pypirc|git-credentials)\b"
    r"|\b(?:auth|credentials|secrets)\.json\b|(?<![\w*-])[\w*-]{1,64}\.(?:pem|kdbx|p12|pfx)\b"
    r"|wallet\.dat)"
    r"|(?P<word>(?:(?<!\w)\.)?[^\W_][\w'\u2019]*(?:\.md)?)"
    # Code and tables are no sentences, and the address of a link is none of its words. What a
    # line says of a name, as in front matter, is a sentence of its own.
    r"|(?P<end>[;{}|\u2500-\u257f]|\]\([^)\s]{0,300}\)|(?<=\w)[(\[=]|[\"']{3}"
    r"|[\"'`](?::|[,)]?\s*\n)|<--|[.!?](?=\W|$)|\n\s*(?:\n|[-*#>+|)\]]|\d+[.)])"
    r"|\n(?=[ \t]*[\w-]{1,30}:\s))"
    r"|(?P<mark>[,:]|->)"
)
_WINDOW = 16
_STEP = 4
_NEAR = 10
"""Words that are so few are looked at from each word on."""
_LONGEST = 120
"""Words that are read as one sentence, where no end of it is found."""
_SECRET_NAMES = ("_api_key", "_token", "_secret", "_password", "_secret_key", "_access_key")
_NO_VALUE = (
    "reset field fields policy manager form strength prompt page input hash hashes protected"
    " change rotation usage count limit limits budget authentication auth file store"
)
"""What follows the name of a secret where not the secret is meant."""
_ASKED = (
    "please kindly just now then and must should shall simply first also next can could would"
    " finally , : you"
)
"""A verb after one of these, or first in its sentence, may be an order."""
_RELATIVE = "that which what whatever whom"
_DEMANDS = "demand require ask order insist request command urge suggest imperative essential vital"
"""What "that you" begins is a description, but after one of these."""


class Judgement(Struct, frozen=True):
    """That the text from `begin` to `end` is of a family."""

    family: str
    begin: int
    end: int


class _Combination(Struct, frozen=True):
    """Senses, as bits, that make an attack together."""

    family: str
    needs: tuple[int, ...]
    without: int
    chain: tuple[int, ...]
    """Those of them that stand in this order."""
    window: int
    senses: int
    """All that it needs."""

    def found(self, masks: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The first and the last of the words where words of these senses stand close together."""
        step = 1 if self.chain and self.window <= _NEAR else _STEP
        for begin in range(0, max(len(masks) - self.window, 0) + 1, step):
            part = masks[begin : begin + self.window]
            union = 0
            for mask in part:
                union |= mask
            is_there = all(union & need for need in self.needs) and not union & self.without
            if is_there and self._in_order(part):
                # What has no part in it, such as the lines around it, stays.
                has_part = [begin + at for at, mask in enumerate(part) if mask & self.senses]
                yield has_part[0], has_part[-1]

    def _in_order(self, masks: Sequence[int]) -> bool:
        at = 0
        for mask in masks:
            if at < len(self.chain) and mask & self.chain[at]:
                at += 1
        return at == len(self.chain)


class SenseJudge:
    """Judges sentences by the senses of their words; its tables are costly to make."""

    def __init__(self) -> None:
        names = ["place", "private", "mark", "called", "asked", *NOUNS, *WORDS]
        names += [f"{name}!" for name in WORDS]
        self._bits = {name: 1 << number for number, name in enumerate(names)}
        self._words: dict[str, int] = {}
        self._phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for name, text in (*NOUNS.items(), *WORDS.items()):
            for word in text.split():
                self._learn(word, self._bits[name])
                if name in NOUNS and not word.endswith(("s", ".md")):
                    self._learn(word + "s", self._bits[name])
        self._asked = frozenset(_ASKED.split())
        self._relative = frozenset(_RELATIVE.split())
        self._demands = frozenset(_DEMANDS.split())
        self._no_value = frozenset(_NO_VALUE.split())
        self._verbs = sum(self._bits[name] for name in WORDS)
        self._combinations = [
            self._combination(family, text) for family, texts in COMBINATIONS for text in texts
        ]

    def judge(self, text: str) -> Iterator[Judgement]:
        """The attacks among the sentences of a text, which is in lower case."""
        words: list[str] = []
        masks: list[int] = []
        spots: list[tuple[int, int]] = []
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "end" or len(words) == _LONGEST:
                if match[0] == "?":
                    spots.append(match.span())
                    words.append("?")
                    masks.append(self._bits["asked"])
                yield from self._judge_sentence(words, masks, spots)
                words, masks, spots = [], [], []
            if kind == "end":
                continue
            spots.append(match.span())
            words.append(match[0].replace("\u2019", "'"))
            masks.append(0 if kind == "word" else self._bits[kind])
        yield from self._judge_sentence(words, masks, spots)

    def _judge_sentence(
        self, words: list[str], masks: list[int], spots: list[tuple[int, int]]
    ) -> Iterator[Judgement]:
        if len(words) < 3:
            return
        union = 0
        for at, mask in enumerate(masks):
            masks[at] = mask or self._senses(words, at)
            union |= masks[at]
        for each in self._combinations:
            if all(union & need for need in each.needs):
                for first, last in each.found(masks):
                    yield Judgement(each.family, spots[first][0], spots[last][1])

    def _senses(self, words: list[str], at: int) -> int:
        """The senses of a word where it stands."""
        word = words[at]
        mask = self._words.get(word, 0) or self._words.get(word.removesuffix("'s"), 0)
        ends = {at + 1} if mask & self._bits["vocative"] else set[int]()
        for rest, bit in self._phrases.get(word, ()):
            if tuple(words[at + 1 : at + 1 + len(rest)]) == rest:
                mask |= bit
                if bit == self._bits["vocative"]:
                    ends.add(at + 1 + len(rest))
        if at + 1 < len(words) and words[at + 1] in self._no_value:
            mask &= ~(self._bits["secret"] | self._bits["hoard"])
        if word.endswith(_SECRET_NAMES):
            mask |= self._bits["secret"]
        if (
            at < 4
            and "->" not in words[:at]
            and any(words[end : end + 1] in ([","], [":"]) for end in ends)
        ):
            mask |= self._bits["called"]
        if at == 0 or (
            words[at - 1] in self._asked and not self._describes(words[max(at - 3, 0) : at])
        ):
            mask |= (mask & self._verbs) << len(WORDS)
        return mask

    def _describes(self, before: Sequence[str]) -> bool:
        """Whether the words lead to one that says more of a thing, such as "that you"."""
        *_, demand, relative, person = ("", "", *before)
        return person == "you" and relative in self._relative and demand not in self._demands

    def _learn(self, word: str, bit: int) -> None:
        first, *rest = word.split("-")
        if rest and word != "e-mail":
            self._phrases.setdefault(first, []).append((tuple(rest), bit))
        else:
            self._words[word] = self._words.get(word, 0) | bit

    def _combination(self, family: str, text: str) -> _Combination:
        """A combination as it is written in the table."""
        needs: list[int] = []
        chain: list[int] = []
        without, window, senses = 0, _WINDOW, 0
        parts = text.split()
        for at, part in enumerate(parts):
            mask = sum(self._bits.get(name, 0) for name in set(part.lstrip("-").split("|")))
            if part.isdigit():
                window = int(part)
            elif part[0] == "-":
                without |= mask
            elif part != ">":
                needs.append(mask)
                senses |= mask
                if ">" in parts[max(at - 1, 0) : at + 2]:
                    chain.append(mask)
        return _Combination(family, tuple(needs), without, tuple(chain), window, senses)
