"""Markdown for a terminal, rendered while it arrives."""

import re

BOLD, ITALIC, CODE = ("\x1b[1m", "\x1b[22m"), ("\x1b[3m", "\x1b[23m"), ("\x1b[36m", "\x1b[39m")

_SPANS = (
    (re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)"), CODE),
    (re.compile(r"(\*\*)(?=[^\s*])(.+?)(?<=[^\s*])\*\*(?!\*)"), BOLD),
    (re.compile(r"(\*)(?=[^\s*])([^*]+?)(?<=[^\s*])\*(?!\*)"), ITALIC),
)
_MARK = re.compile(r"`+|\*+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6} +")
_BULLET = re.compile(r"(\s*)[-*+] +(?=\S)")
_MAY_BEGIN_A_BLOCK = re.compile(r"\s*(#{0,6} *|`{1,2}|~{0,2}|[-*+] *)$")
"""Too short to tell whether the line is a heading, a fence or a list item."""


class MarkdownStream:
    """Turns Markdown into styled text, piece by piece.

    Only possible marks are held back: a styled word until it ends, and the first characters of a
    line. An unmatched mark is text.
    """

    def __init__(self) -> None:
        self._held = ""
        self._at_start = True
        self._is_heading = False
        self._fence = ""

    def feed(self, text: str) -> str:
        """Add text; return what can be shown."""
        self._held += text
        shown = ""
        while True:
            line, newline, rest = self._held.partition("\n")
            if not newline:
                break
            shown += self._line(line)
            self._held = rest
        return shown + self._beginning()

    def finish(self) -> str:
        """Return all held text, and start anew."""
        if self._at_start and self._is_fence(self._held):
            shown = ""
        elif self._fence:
            shown = self._held
        else:
            shown = self._inline(self._held, is_over=True)[0]
        shown += self._end_heading()
        self._held, self._at_start, self._fence = "", True, ""
        return shown

    def _line(self, rest: str) -> str:
        if self._at_start and self._is_fence(rest):
            return ""
        shown = self._begun(rest, is_over=True) + self._end_heading()
        self._at_start = True
        return f"{shown}\n"

    def _beginning(self) -> str:
        """Return what is certain of an unfinished line."""
        held = self._held
        if not held or (self._at_start and (_MAY_BEGIN_A_BLOCK.match(held) or _FENCE.match(held))):
            return ""
        return self._begun(held, is_over=False)

    def _begun(self, text: str, *, is_over: bool) -> str:
        """Render more of a line; hold what is still open."""
        if self._fence:
            self._at_start, self._held = False, ""
            return _styled(text, CODE)
        opening = ""
        if self._at_start:
            self._at_start = False
            if heading := _HEADING.match(text):
                self._is_heading, opening, text = True, BOLD[0], text[heading.end() :]
            elif bullet := _BULLET.match(text):
                opening, text = f"{bullet[1]}• ", text[bullet.end() :]
        shown, self._held = self._inline(text, is_over=is_over)
        return opening + shown

    def _inline(self, text: str, *, is_over: bool) -> tuple[str, str]:
        """Return styled words, and the open rest."""
        shown, at = "", 0
        while (mark := _MARK.search(text, at)) is not None:
            shown += text[at : mark.start()]
            at = mark.start()
            span, style = _span(text, at)
            if span is not None and (is_over or span.end() < len(text)):
                shown += span[2] if self._is_heading and style is BOLD else _styled(span[2], style)
                at = span.end()
            elif not is_over and text[mark.end() : mark.end() + 1] != " ":
                return shown, text[at:]
            else:
                shown += mark[0]
                at = mark.end()
        return shown + text[at:], ""

    def _is_fence(self, line: str) -> bool:
        """Return whether the line begins or ends a code block; such lines are hidden."""
        fence = _FENCE.match(line)
        if fence is None:
            return False
        if not self._fence:
            self._fence = fence[1]
            return True
        if fence[1].startswith(self._fence) and not line[fence.end() :].strip():
            self._fence = ""
            return True
        return False

    def _end_heading(self) -> str:
        was_heading, self._is_heading = self._is_heading, False
        return BOLD[1] if was_heading else ""


def _span(text: str, at: int) -> tuple[re.Match[str] | None, tuple[str, str]]:
    """Return the styled words that begin here, if any, and their style."""
    for like, style in _SPANS:
        if (span := like.match(text, at)) is not None:
            return span, style
    return None, ("", "")


def _styled(text: str, style: tuple[str, str]) -> str:
    return f"{style[0]}{text}{style[1]}" if text else ""
