"""Secrets taken out of text before it leaves the process: known values and well-known shapes."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from urllib.parse import quote, quote_plus

from msgspec import Struct

MASK = "[REDACTED]"

# Shorter values would be found in ordinary words.
MIN_SECRET_CHARS = 8

_PASSING = 32
"""How many secrets that end are known; those before them have long ended."""


class Redactor:
    """Replaces secrets in text; one is made for each process and handed to whoever shows text."""

    def __init__(
        self,
        secrets: Iterable[str] = (),
        on_redacted: Callable[[int], None] | None = None,
    ) -> None:
        self._spellings: tuple[str, ...] = ()
        self._passing: dict[str, tuple[str, ...]] = {}
        self._on_redacted = on_redacted
        for value in secrets:
            self.add_secret(value)

    def add_secret(self, value: str) -> bool:
        """Take `value` out of all text from now on; False when it is too short to be told apart."""
        value = value.strip()
        if len(value) < MIN_SECRET_CHARS:
            return False
        # A new tuple, so that a thread that is just reading has the whole old one.
        found = {*self._spellings, *_spellings(value)}
        self._spellings = tuple(sorted(found, key=len, reverse=True))
        return True

    def add_passing_secret(self, value: str) -> None:
        """Take out one that ends, such as a token; only the latest of these are known."""
        value = value.strip()
        if len(value) < MIN_SECRET_CHARS or value in self._passing:
            return
        latest = list(self._passing.items())[1 - _PASSING :]
        # Anew, as above.
        self._passing = dict((*latest, (value, tuple(_spellings(value)))))

    def redact(self, text: str) -> str:
        """The text with every secret in it replaced."""
        clean = text
        passing = chain.from_iterable(self._passing.values())
        found = [each for each in chain(self._spellings, passing) if each in text]
        for spelling in sorted(found, key=len, reverse=True):
            clean = clean.replace(spelling, MASK)
        for shape in SHAPES:
            if shape.may_be_in(clean):
                clean = shape.pattern.sub(shape.replacement, clean)
        if clean != text and self._on_redacted is not None:
            self._on_redacted(clean.count(MASK) - text.count(MASK))
        return clean


class Shape(Struct, frozen=True):
    """What a kind of secret looks like."""

    pattern: re.Pattern[str]
    markers: tuple[str, ...]
    """Texts of which one is in every match: finding none is far quicker than matching."""
    replacement: str | Callable[[re.Match[str]], str] = MASK

    def may_be_in(self, text: str) -> bool:
        """Whether the pattern is worth trying."""
        for marker in self.markers:  # noqa: SIM110 (any() takes twice as long here)
            if marker in text:
                return True
        return False


_SECRET_NAME = re.compile(
    r"(?:api[_-]?key|secret|passw(?:or)?d|access[_-]?key|token)[a-z_-]{0,20}[\"'\\]{0,3}\s{0,3}$",
    re.IGNORECASE,
)
_NAME_CHARS = 48


def _names_a_secret(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NAME_CHARS) : match.start()]
    return _SECRET_NAME.search(before) is not None


# A value counts as random when it has a digit: names in program text rarely do.
_RANDOM = r"(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]"

# GitHub, GitLab, Slack, Stripe, Google and others mark their keys.
_PREFIXES = (
    "AIza|ghp_|gho_|ghs_|ghu_|ghr_|github_pat_|glpat-|gsk_|hf_|npm_|nvapi-|pplx-|pypi-|r8_|rk_live_"
    "|rk_test_|sk_live_|sk_test_|tvly-|xai-|xapp-|xoxa-|xoxb-|xoxe-|xoxp-|xoxs-|ya29[.]"
)

SHAPES: tuple[Shape, ...] = (
    # The body may stand in JSON, where its line ends are backslash and n; a cut one ends anywhere.
    Shape(
        re.compile(
            r"-----BEGIN (?P<kind>[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----"
            r"(?:[A-Za-z0-9+/=:,.\s]|\\+[nrt/]|-(?!----))*"
            r"(?:-----END (?P=kind)-----)?"
        ),
        ("PRIVATE KEY",),
    ),
    # OpenAI, OpenRouter, Anthropic and those who followed them.
    Shape(re.compile(rf"(?<![A-Za-z0-9])sk-{_RANDOM}{{16,}}"), ("sk-",)),
    Shape(
        re.compile(rf"(?<![A-Za-z0-9])(?:{_PREFIXES}){_RANDOM}{{16,}}"),
        tuple(_PREFIXES.replace("[.]", ".").split("|")),
    ),
    Shape(re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"), ("AKIA", "ASIA")),
    # Telegram's; the number before the colon is the bot's public id.
    Shape(re.compile(r":(?<=\d{6}:)[A-Za-z0-9_-]{34,}"), (":",), f":{MASK}"),
    # Discord's: the user's id, a time and a signature.
    Shape(re.compile(r"[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"), (".",)),
    # JSON web tokens.
    Shape(
        re.compile(
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
        ),
        ("eyJ",),
    ),
    Shape(
        re.compile(
            r"(?P<head>\b(?:[Bb]earer|BEARER)\s+)(?=[A-Za-z._~+/=-]{0,60}\d)[A-Za-z0-9._~+/=-]{8,}"
        ),
        ("earer", "EARER"),
        rf"\g<head>{MASK}",
    ),
    Shape(
        re.compile(r"(?P<head>[Aa]uthorization\W{1,8}[Bb]asic\s+)[A-Za-z0-9+/=]{8,}"),
        ("uthorization",),
        rf"\g<head>{MASK}",
    ),
    Shape(
        re.compile(r"(?P<head>://[^\s/:@\"'\\]*:)[^\s/@\"'\\]+@"),
        ("://",),
        rf"\g<head>{MASK}@",
    ),
    # A value that looks random after a name that says it is a secret; taken whole (`+`), so that
    # a call or an attribute is left alone.
    Shape(
        re.compile(
            r"(?P<head>[:=]\s{0,3}[\"'\\]{0,3})"
            r"(?=[A-Za-z_+/-]{0,60}\d)[A-Za-z0-9_+/-]{16,}+={0,2}(?![.(\[])"
        ),
        ("=", ":"),
        lambda match: match["head"] + MASK if _names_a_secret(match) else match[0],
    ),
)
"""The shapes of secrets that are told by themselves."""


def _spellings(value: str) -> Iterator[str]:
    """The ways in which a value can stand in text."""
    data = value.encode("utf-8", "surrogateescape")
    yield value
    yield data.hex()
    yield data.hex().upper()
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    in_python = repr(value), repr(f'"{value}')[1:]  # which escapes ' in a text that has both
    for plain in (json.dumps(value), json.dumps(value, ensure_ascii=False), *in_python):
        yield plain[1:-1]
        # JSON in JSON.
        yield json.dumps(plain[1:-1])[1:-1]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            yield _base64_inside(data, offset, encode)


def _base64_inside(data: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """What is always there when `data` stands `offset` bytes (modulo 3) into what is encoded."""
    encoded = encode(bytes(offset) + data).decode().rstrip("=")
    first = (0, 2, 3)[offset]
    whole = (offset + len(data)) * 8 // 6
    return encoded[first:whole]
