"""What secrets look like that nobody has told us, such as keys that say whose they are."""

import re
from collections.abc import Callable

from msgspec import Struct


class Shape(Struct, frozen=True):
    """What a kind of secret looks like; where the pattern has a group `secret`, that is it."""

    pattern: re.Pattern[str]
    markers: tuple[str, ...]
    """Texts of which one is in every match: finding none is far quicker than matching. They are in
    its `run` where it has one; none are looked for where there are none."""
    growing: re.Pattern[str]
    """Matches where the text may go on to be such a secret, from where that begins to the end."""
    run: int = 0
    """It has at least so many letters of base64 in a row, where that is `LONG` or more."""
    in_programs: bool = True
    """It is no secret any less in what is to be run or written as it is."""
    names: tuple[str, ...] = ()
    """Likewise of the text around it, in small letters."""
    is_meant: Callable[[re.Match[str]], bool] | None = None
    """Whether a match is one, where that takes more than the pattern."""
    is_random: Callable[[str], bool] | None = None
    """Likewise whether a whole one is, which its beginning does not show."""

    @property
    def growing_group(self) -> str | int:
        """The same where the text may go on to be one."""
        return "secret" if "secret" in self.growing.groupindex else 0

    @property
    def group(self) -> str | int:
        """The part of a match that is the secret."""
        return "secret" if "secret" in self.pattern.groupindex else 0

    def may_be_in(self, text: str, runs: str) -> bool:
        """Whether the pattern is worth trying on a text with these runs."""
        if self.markers and not _has_one(runs if self.run else text, self.markers):
            return False
        return not self.names or _has_one(text.lower(), self.names)

    def is_secret(self, match: re.Match[str]) -> bool:
        """Whether a whole match is one."""
        if self.is_random is not None and not self.is_random(match[0]):
            return False
        return self.is_meant is None or self.is_meant(match)


LONG = 16


def _has_one(text: str, parts: tuple[str, ...]) -> bool:
    for part in parts:  # noqa: SIM110 (any() takes twice as long here)
        if part in text:
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


_PART = re.compile(r"[A-Za-z0-9]{8,}")
_CHANGE = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])")


def _has_random_part(found: str) -> bool:
    """Whether a part of it is no word: classes of CSS and slugs have digits here and there, too."""
    return any(
        len(_CHANGE.findall(part)) >= 3
        or (len(part) >= LONG and not part.isalpha() and not part.isdigit())
        for part in _PART.findall(found)
    )


def _begun(marker: str, rest: str) -> str:
    """What matches a marker with what follows it, and any beginning of it, at the text's end."""
    pattern = rest
    for letter in reversed(marker):
        pattern = f"{re.escape(letter)}(?:{pattern})?"
    return pattern


def _beginning(markers: tuple[str, ...], rest: str, before: str = "(?<![A-Za-z0-9])") -> str:
    return rf"{before}(?:{'|'.join(_begun(marker, rest) for marker in markers)})\Z"


# A value counts as random when it has a digit: names in program text rarely do.
_RANDOM = r"(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]"

# GitHub, GitLab, Slack, Stripe, Google and others mark their keys.
_MARKS = (
    *("AIza", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-"),
    *("rk_live_", "rk_test_", "sk_live_", "sk_test_"),
    *("tvly-", "xapp-", "xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxs-", "ya29"),
)
# So do these, by marks that ordinary names begin with as well. OpenAI, OpenRouter, Anthropic and
# those who followed them have the first; the others' keys have at least 30 random letters.
_SHORT_MARKS = ("sk-", "gsk_", "hf_", "npm_", "nvapi-", "pplx-", "pypi-", "r8_", "xai-")

_KEY_BODY = r"(?:[A-Za-z0-9+/=:,.\s]|\\+[nrt/]|-(?!----))"
_KEY_KIND = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?"

# The body may stand in JSON, where its line ends are backslash and n; a cut one ends anywhere.
KEY_BLOCK = Shape(
    re.compile(rf"-----BEGIN (?P<kind>{_KEY_KIND})-----{_KEY_BODY}*(?:-----END (?P=kind)-----)?"),
    ("PRIVATE KEY",),
    re.compile(
        _begun("-----BEGIN ", rf"[A-Z0-9 ]{{0,40}}-{{0,4}}\Z|{_KEY_KIND}-----{_KEY_BODY}*+")
        + rf"(?:{_begun('-----END ', '[A-Z0-9 ]{0,60}-{0,4}')})?\Z"
    ),
)

SHAPES: tuple[Shape, ...] = (
    KEY_BLOCK,
    Shape(
        re.compile(
            rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _SHORT_MARKS))}){_RANDOM}{{16,}}"
        ),
        _SHORT_MARKS,
        re.compile(_beginning(_SHORT_MARKS, "[A-Za-z0-9_-]*")),
        run=19,
        is_random=_has_random_part,
    ),
    Shape(
        re.compile(
            rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _MARKS))})[.]?{_RANDOM}{{16,}}",
        ),
        _MARKS,
        re.compile(_beginning(_MARKS, "[.]?[A-Za-z0-9_-]*")),
        run=16,
    ),
    Shape(
        re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
        ("AKIA", "ASIA"),
        re.compile(_beginning(("AKIA", "ASIA"), "[A-Z0-9]{0,16}", "(?<![A-Z0-9])")),
        run=20,
    ),
    # Telegram's; the number before the colon is the bot's public id.
    Shape(
        re.compile(r":(?<=\d{6}:)(?P<secret>[A-Za-z0-9_-]{34,})"),
        (),
        re.compile(r":(?<=\d{6}:)(?P<secret>[A-Za-z0-9_-]*)\Z"),
        run=34,
    ),
    # Discord's: the user's public id, a time and a signature.
    Shape(
        re.compile(r"[MNO][A-Za-z0-9_-]{22,27}\.(?P<secret>[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})"),
        (),
        re.compile(
            r"[MNO][A-Za-z0-9_-]{22,27}\.(?P<secret>[A-Za-z0-9_-]{0,6}(?:\.[A-Za-z0-9_-]*)?)\Z"
        ),
        run=27,
    ),
    # JSON web tokens.
    Shape(
        re.compile(
            r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
        ),
        ("eyJ",),
        re.compile(
            _beginning(("eyJ",), r"[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*){0,2}", "(?<![A-Za-z0-9_-])")
        ),
    ),
    # Programs are full of those that stand for others, and do not run with a mark instead.
    Shape(
        re.compile(
            r"\b(?:[Bb]earer|BEARER)\s+"
            r"(?P<secret>(?=[A-Za-z._~+/=-]{0,60}\d)[A-Za-z0-9._~+/=-]{8,})"
        ),
        ("earer", "EARER"),
        re.compile(r"\b(?:[Bb]earer|BEARER)\s+(?P<secret>[A-Za-z0-9._~+/=-]*)\Z"),
        in_programs=False,
    ),
    Shape(
        re.compile(r"[Aa]uthorization\W{1,8}[Bb]asic\s+(?P<secret>[A-Za-z0-9+/=]{8,})"),
        ("uthorization",),
        re.compile(r"[Aa]uthorization\W{1,8}[Bb]asic\s+(?P<secret>[A-Za-z0-9+/=]*)\Z"),
        in_programs=False,
    ),
    Shape(
        re.compile(r"://[^\s/:@\"'\\]*:(?P<secret>[^\s/@\"'\\]+)@"),
        ("://",),
        re.compile(r"://[^\s/:@\"'\\]*:(?P<secret>[^\s/@\"'\\]*)\Z"),
        in_programs=False,
    ),
    # A value that looks random after a name that says it is a secret; taken whole (`+`), so that
    # a call or an attribute is left alone.
    Shape(
        re.compile(
            r"[:=]\s{0,3}[\"'\\]{0,3}"
            r"(?P<secret>(?=[A-Za-z_+/-]{0,60}\d)[A-Za-z0-9_+/-]{16,}+={0,2}(?![.(\[]))"
        ),
        (),
        re.compile(r"[:=]\s{0,3}[\"'\\]{0,3}(?P<secret>[A-Za-z0-9_+/-]*={0,2})\Z"),
        run=LONG,
        names=("key", "secret", "passw", "token"),
        is_meant=_names_a_secret,
        in_programs=False,
    ),
)
"""The shapes of secrets that are told by themselves."""

BEGINNINGS = frozenset(
    marker[:size]
    for marker in (*_MARKS, *_SHORT_MARKS, "AKIA", "ASIA", "eyJ")
    for size in range(1, len(marker))
)
"""What they begin with, not whole yet."""
