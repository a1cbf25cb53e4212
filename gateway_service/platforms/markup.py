"""Splits models' Markdown to a platform's length, and converts it to its formatting."""

import html
import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Length: TypeAlias = Callable[[str], int]
"""Returns a text's length as a platform counts it."""

_FENCE = re.compile(r" {0,3}(```+|~~~+)(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.+?)\s*#*$")
_BULLET = re.compile(r"(\s*)[-*+]\s+(?=\S)")
_QUOTE = re.compile(r" {0,3}> ?")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*$")
_LANGUAGE = re.compile(r"[\w+#.-]+")
_SAFE_URL = re.compile(r"(?:https?|tg|mailto):", re.IGNORECASE)
# Units that must not be split: links, inline code, words.
_PIECE = re.compile(r"!?\[[^\]\n]*\]\([^()\s]*\)|`[^`\n]+`|\s+|[^\s`\[!]+|.", re.DOTALL)
_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|!?\[(?P<label>[^\]]*)\]\((?P<url>[^()\s]+)\)"
    r"|\*\*\*(?P<both>[^\s*](?:[^*]*[^\s*])?)\*\*\*"
    r"|\*\*(?P<bold>\S(?:.*?\S)?)\*\*"
    r"|(?<!\w)__(?P<bold_too>\S(?:.*?\S)?)__(?!\w)"
    r"|~~(?P<strike>\S(?:.*?\S)?)~~"
    r"|(?<![\w*])\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])"
    r"|(?<!\w)_(?P<italic_too>[^\s_](?:[^_]*[^\s_])?)_(?!\w)",
    re.DOTALL,
)


def units(text: str) -> int:
    """Return the length in UTF-16 code units, as platforms count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def split(markdown: str, limit: int, length: Length = units) -> list[str]:
    """Split a text into parts within the limit, at the best places; at least one part.

    A split code block is closed in one part and reopened in the next. Links and inline code are
    only split if they exceed a whole part.
    """
    parts = _Parts(limit, length)
    for line in markdown.strip("\n").split("\n"):
        parts.add(line)
    return parts.finish()


def first_part(markdown: str, limit: int, length: Length = units) -> str:
    """Return the beginning of a text that is still being written."""
    parts = split(markdown, limit - 2, length)
    return parts[0] if len(parts) == 1 else f"{parts[0]} …"


class _Fence(Struct):
    opening: str
    mark: str

    def closes(self, line: str) -> bool:
        found = _FENCE.fullmatch(line)
        return found is not None and found[1].startswith(self.mark) and not found[2].strip()


class _Parts:
    def __init__(self, limit: int, length: Length) -> None:
        self._limit = limit
        self._length = length
        self._done: list[str] = []
        self._lines: list[str] = []
        self._used = 0
        self._fence: _Fence | None = None

    def add(self, line: str) -> None:
        """Add a line, in pieces if it is longer than a part."""
        if not self._fits(line) and not self._is_fresh():
            self._cut()
        while not self._fits(line):
            head = self._head(line, self._room(), whole=self._fence is None)
            self._put(head)
            self._cut()
            line = line[len(head) :] if self._fence else line[len(head) :].lstrip(" ")
        self._put(line)
        self._watch(line)

    def finish(self) -> list[str]:
        text = "\n".join(self._lines).strip("\n")
        if text.strip() or not self._done:
            self._done.append(text)
        return self._done

    def _room(self) -> int:
        closing = self._length(self._fence.mark) + 1 if self._fence else 0
        return self._limit - self._used - closing

    def _fits(self, line: str) -> bool:
        # An opening fence needs room for its closing fence.
        found = _FENCE.fullmatch(line) if self._fence is None else None
        closing = self._length(found[1]) + 1 if found else 0
        return self._length(line) + closing <= self._room()

    def _is_fresh(self) -> bool:
        return len(self._lines) == (1 if self._fence else 0)

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._used += self._length(line) + 1

    def _watch(self, line: str) -> None:
        if self._fence is not None:
            if self._fence.closes(line):
                self._fence = None
        elif found := _FENCE.fullmatch(line):
            self._fence = _Fence(line, found[1])

    def _cut(self) -> None:
        if self._fence is not None:
            self._lines.append(self._fence.mark)
        text = "\n".join(self._lines).strip("\n")
        if text.strip():
            self._done.append(text)
        self._lines, self._used = [], 0
        if self._fence is not None:
            self._put(self._fence.opening)

    def _head(self, line: str, room: int, *, whole: bool) -> str:
        """Return as much of a line as fits; `whole` keeps links and words together."""
        end, used = 0, 0
        if whole:
            for piece in _PIECE.findall(line):
                if used + self._length(piece) > room:
                    break
                end, used = end + len(piece), used + self._length(piece)
        if not line[:end].strip():
            end, used = 0, 0
            while end < len(line) and used + self._length(line[end]) <= room:
                used += self._length(line[end])
                end += 1
        # Always take something, even without room, so that the loop ends.
        return line[: max(1, end)]


class Style(Struct, frozen=True):
    """How a platform writes formatted text; patterns have braces where the text stands."""

    text: Callable[[str], str]
    """Escapes plain text."""
    escape: Callable[[str], str]
    """Escapes code and addresses."""
    bold: str
    italic: str
    strike: str
    code: str
    block: Callable[[str, str], str]
    """Writes a code block, given its language, which may be empty, and its escaped text."""
    quote: Callable[[str], str]
    link: Callable[[str, str], str]
    """Writes a link, given its formatted label and its address."""

    def format(self, kind: str, text: str) -> str:
        match kind:
            case "both":
                return self.bold.format(self.italic.format(text))
            case "bold" | "bold_too":
                return self.bold.format(text)
            case "strike":
                return self.strike.format(text)
            case _:
                return self.italic.format(text)


def _same(text: str) -> str:
    return text


PLAIN = Style(
    text=_same,
    escape=_same,
    bold="{}",
    italic="{}",
    strike="{}",
    code="{}",
    block=lambda _language, code: code,
    quote=_same,
    link=lambda label, url: url if label == url else f"{label} ({url})",
)
"""No formatting."""


def render(markdown: str, style: Style) -> str:
    """Convert Markdown to a platform's formatting; other text is shown as it is."""
    shown: list[str] = []
    lines = markdown.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        end = index + 1
        if fence := _FENCE.fullmatch(line):
            block = _Fence(line, fence[1])
            while end < len(lines) and not block.closes(lines[end]):
                end += 1
            inside = lines[index + 1 : end]
            # A message that has only just begun a block would be empty, which platforms refuse.
            is_empty = not "".join(inside).strip()
            shown.append(style.text(line) if is_empty else _code(fence[2].strip(), inside, style))
            end += 1
        elif _QUOTE.match(line):
            while end < len(lines) and _QUOTE.match(lines[end]):
                end += 1
            quoted = "\n".join(_QUOTE.sub("", each, count=1) for each in lines[index:end])
            shown.append(style.quote(_inline(quoted, style)))
        elif _is_table(lines[index : index + 2]):
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            shown.append(_code("", lines[index:end], style))
        else:
            shown.append(_line(line, style))
        index = end
    return "\n".join(shown)


def _code(language: str, lines: list[str], style: Style) -> str:
    found = _LANGUAGE.match(language)
    return style.block(found[0] if found else "", style.escape("\n".join(lines)))


def _is_table(lines: list[str]) -> bool:
    return len(lines) > 1 and all(line.lstrip().startswith("|") for line in lines)


def _line(line: str, style: Style) -> str:
    if _RULE.match(line):
        return "———"
    if heading := _HEADING.match(line):
        return style.bold.format(_inline(heading[1].replace("**", ""), style))
    bullet = _BULLET.match(line)
    if bullet:
        return f"{bullet[1]}• {_inline(line[bullet.end() :], style)}"
    return _inline(line, style)


def _inline(text: str, style: Style) -> str:
    shown: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        shown.append(style.text(text[end : found.start()]))
        shown.append(_formatted(found, style))
        end = found.end()
    shown.append(style.text(text[end:]))
    return "".join(shown)


def _formatted(found: re.Match[str], style: Style) -> str:
    kind = found.lastgroup or ""
    if found["code"] is not None:
        return style.code.format(style.escape(found["code"].strip() or found["code"]))
    if found["url"] is not None:
        inside = replace(style, text=style.escape)  # no link stands in another
        label = _inline(found["label"], inside) or style.escape(found["url"])
        if not _SAFE_URL.match(found["url"]):
            return f"{label} ({style.escape(found['url'])})"
        return style.link(label, found["url"])
    return style.format(kind, _inline(found[kind], style))


def _escape_html(text: str) -> str:
    return html.escape(text, quote=False)


def _html_block(language: str, text: str) -> str:
    if language:
        return f'<pre><code class="language-{html.escape(language)}">{text}</code></pre>'
    return f"<pre>{text}</pre>"


HTML = Style(
    text=_escape_html,
    escape=_escape_html,
    bold="<b>{}</b>",
    italic="<i>{}</i>",
    strike="<s>{}</s>",
    code="<code>{}</code>",
    block=_html_block,
    quote="<blockquote>{}</blockquote>".format,
    link=lambda label, url: f'<a href="{html.escape(url)}">{label}</a>',
)
"""Telegram's HTML."""


def to_html(markdown: str) -> str:
    """Convert Markdown to Telegram's HTML."""
    return render(markdown, HTML)
