"""Slack's formatting, mrkdwn: from Markdown, and back."""

import html
import re
from collections.abc import Mapping

from gateway_service.platforms.markup import Style, render, units

_REFERENCE = re.compile(r"<([^<>|\n]+)(?:\|([^<>\n]*))?>")
_URL = re.compile(r"https?://[^\s<>|]*[\w/]")
_EDGE = "\x01"
"""Stands before and after what is formatted."""
_WITHIN = re.compile(rf"(?<=[^\W_]){_EDGE}+|{_EDGE}+(?=[^\W_])")
"""Edges within words, where Slack formats nothing without a space."""
_UNFENCED = "`\u200b``"
"""Instead of what would end a code block, which cannot be escaped."""
_ID = re.compile(r"<[@#](\w+)")


def escape(text: str) -> str:
    """Escape what could be a mention or a link."""
    return html.escape(text, quote=False)


def _block(_language: str, code: str) -> str:
    shown = code.replace("```", _UNFENCED)
    return f"```\n{shown}\n```"


def _link(label: str, url: str) -> str:
    address = escape(url).replace("|", "%7C")
    return f"<{address}>" if label == escape(url) else f"<{address}|{label}>"


_STYLE = Style(
    text=lambda text: _URL.sub(r"<\g<0>>", escape(text)),
    escape=escape,
    bold=f"{_EDGE}*{{}}*{_EDGE}",
    italic=f"{_EDGE}_{{}}_{_EDGE}",
    strike=f"{_EDGE}~{{}}~{_EDGE}",
    code=f"{_EDGE}`{{}}`{_EDGE}",
    block=_block,
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    link=_link,
)


def to_mrkdwn(markdown: str) -> str:
    """Convert Markdown."""
    shown = render(markdown.replace(_EDGE, ""), _STYLE)
    return _WITHIN.sub("\u200b", shown).replace(_EDGE, "")


def length(text: str) -> int:
    """Return the length of a text once it is escaped."""
    return units(escape(text))


def mentioned(text: str) -> set[str]:
    """Return the ids of the people and channels that a text mentions."""
    return set(_ID.findall(text))


def to_markdown(text: str, names: Mapping[str, str]) -> str:
    """Return what a person wrote; `names` are those of `mentioned`."""

    def shown(found: re.Match[str]) -> str:
        target, label = found[1], found[2] or ""
        match target[0]:
            case "@":
                return f"@{label or names.get(target[1:]) or target[1:]}"
            case "#":
                return f"#{label or names.get(target[1:]) or target[1:]}"
            case "!":
                return label or f"@{target[1:].partition('^')[0]}"
            case _:
                address = target.removeprefix("mailto:")
                is_plain = label in ("", address) or address.endswith(f"//{label}")
                return address if is_plain else f"[{label}]({target})"

    return html.unescape(_REFERENCE.sub(shown, text))
