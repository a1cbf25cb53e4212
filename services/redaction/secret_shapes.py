"""The shapes of well-known kinds of secrets."""

import re
from collections.abc import Callable

from msgspec import Struct


class Shape(Struct, frozen=True):
    """The shape of a kind of secret: the group `secret` of the pattern, if it has one."""

    pattern: re.Pattern[str]
    markers: tuple[str, ...] = ()
    """One of these is in every match; searching for them first is far quicker."""
    names: tuple[str, ...] = ()
    """Like markers, but for the text in lower case."""
    in_programs: bool = True
    """Whether it also applies to text that is executed or stored as is."""
    is_meant: Callable[[re.Match[str]], bool] | None = None
    """An additional test of a match."""

    @property
    def group(self) -> str | int:
        """The group of the pattern that is the secret."""
        return "secret" if "secret" in self.pattern.groupindex else 0

    def may_be_in(self, text: str) -> bool:
        """Return whether the pattern is worth trying on a text."""
        parts, text = (self.names, text.lower()) if self.names else (self.markers, text)
        for part in parts:  # noqa: SIM110 (any() takes twice as long here)
            if part in text:
                return True
        return False

    def is_secret(self, match: re.Match[str]) -> bool:
        return self.is_meant is None or self.is_meant(match)


_SECRET_NAME = re.compile(
    r"(?:api[_-]?key|secret|passw(?:or)?d|access[_-]?key|token)[a-z_-]{0,20}[\"'\\]{0,3}\s{0,3}$",
    re.IGNORECASE,
)
_NAME_CHARS = 48


def _names_a_secret(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NAME_CHARS) : match.start()]
    return _SECRET_NAME.search(before) is not None


_PART = re.compile(r"[A-Za-z0-9]{8,}")
_CHANGE = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])")


def _has_random_part(found: re.Match[str]) -> bool:
    """Reject words: CSS classes and slugs have a digit here and there, too."""
    return any(
        len(_CHANGE.findall(part)) >= 3
        or (len(part) >= 16 and not part.isalpha() and not part.isdigit())
        for part in _PART.findall(found[0])
    )


# A digit marks a value as random: names in program text rarely have one.
_RANDOM = r"(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]"

# Marked keys of GitHub, GitLab, Slack, Stripe, Google and others.
_MARKS = (
    *("AIza", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-"),
    *("rk_live_", "rk_test_", "sk_live_", "sk_test_"),
    *("tvly-", "xapp-", "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxs-", "ya29"),
)
# Marks that also begin ordinary names. OpenAI and compatible providers use the first; the keys of
# the others have at least 30 random letters.
_SHORT_MARKS = ("sk-", "gsk_", "hf_", "npm_", "nvapi-", "pplx-", "pypi-", "r8_", "xai-")

_KEY_BODY = r"(?:[A-Za-z0-9+/=:,.\s]|\\+[nrt/]|-(?!----))"
# Python before 3.11.5 matches less with `*+` after a group, which gives a part of the key away.
_WHOLE_KEY_BODY = rf"(?>{_KEY_BODY}*)"
_KEY_KIND = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?"

KEY_BEGINNING = re.compile(
    r"-----BEGIN (?:[A-Z0-9 ]{0,40}-{0,4}"
    rf"|{_KEY_KIND}-----{_WHOLE_KEY_BODY}(?:-----[A-Z0-9 ]*-*)?)\Z"
)
"""A private key, or its first line, at the end of a text."""


def _marked(marks: tuple[str, ...], rest: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, marks))}){rest}")


SHAPES: tuple[Shape, ...] = (
    # In JSON the line ends of the body are backslash and n; a truncated one ends anywhere.
    Shape(
        re.compile(
            rf"-----BEGIN (?P<kind>{_KEY_KIND})-----{_KEY_BODY}*(?:-----END (?P=kind)-----)?"
        ),
        ("PRIVATE KEY",),
    ),
    Shape(_marked(_SHORT_MARKS, rf"{_RANDOM}{{16,}}"), _SHORT_MARKS, is_meant=_has_random_part),
    Shape(_marked(_MARKS, rf"[.]?{_RANDOM}{{16,}}"), _MARKS),
    Shape(re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"), ("AKIA", "ASIA")),
    # Telegram; the number before the colon is the bot's public id.
    Shape(re.compile(r":(?<=\d{6}:)(?P<secret>[A-Za-z0-9_-]{34,})"), (":",)),
    # Discord: the user's public id, a time and a signature.
    Shape(
        re.compile(r"[MNO][A-Za-z0-9_-]{22,27}\.(?P<secret>[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})"),
        (".",),
    ),
    # JSON web tokens.
    Shape(
        re.compile(
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
        ),
        ("eyJ",),
    ),
    # Program text is full of placeholders, and a replaced one would not run.
    Shape(
        re.compile(
            r"\b(?:[Bb]earer|BEARER)\s+"
            r"(?P<secret>(?=[A-Za-z._~+/=-]{0,60}\d)[A-Za-z0-9._~+/=-]{8,})"
        ),
        ("earer", "EARER"),
        in_programs=False,
    ),
    Shape(
        re.compile(r"[Aa]uthorization\W{1,8}[Bb]asic\s+(?P<secret>[A-Za-z0-9+/=]{8,})"),
        ("uthorization",),
        in_programs=False,
    ),
    Shape(re.compile(r"://[^\s/:@\"'\\]*:(?P<secret>[^\s/@\"'\\]+)@"), ("://",), in_programs=False),
    # A random-looking value after a secret's name; possessive (`+`), to spare calls and attributes.
    Shape(
        re.compile(
            r"[:=]\s{0,3}[\"'\\]{0,3}"
            r"(?P<secret>(?=[A-Za-z_+/-]{0,60}\d)[A-Za-z0-9_+/-]{16,}+={0,2}(?![.(\[]))"
        ),
        names=("key", "secret", "passw", "token"),
        in_programs=False,
        is_meant=_names_a_secret,
    ),
)

BEGINNINGS = frozenset(
    marker[:size]
    for marker in (*_MARKS, *_SHORT_MARKS, "AKIA", "ASIA", "eyJ")
    for size in range(1, len(marker) + 1)
)
"""The beginnings of marks, with the whole mark."""
