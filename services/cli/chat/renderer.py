"""Markdown, code and wrapped lines as rich shows them; imported when there is something to show."""

import re
from collections.abc import Iterable
from functools import lru_cache
from io import StringIO
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListElement, Markdown, MarkdownElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

_CODE_THEME = "ansi_dark"
_STYLES = {
    **{f"markdown.h{level}": "bold" for level in range(1, 7)},
    "markdown.code": "cyan",
    "markdown.code_block": "cyan",
    "markdown.block_quote": "dim",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
    "markdown.link": "underline",
    "markdown.link_url": "dim",
    "markdown.hr": "dim",
}
_PADDING = re.compile(r"^(?:\x1b\[[\d;]*m| )+$| +(?=(?:\x1b\[[\d;]*m)*$)", re.MULTILINE)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        shown = highlight(code, self.lexer_name, colours=not console.no_color)
        yield Text.from_ansi(shown, overflow="fold")


class _List(ListElement):
    """Shows numbers as they were written."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_numbered = self.list_type == "ordered_list_open"
        for number, item in enumerate(self.items, self.list_start or 0):
            mark = f"{number}. " if is_numbered else "• "
            inside = options.update(width=max(1, options.max_width - len(mark)))
            for line in console.render_lines(item.elements, inside, style=item.style):
                yield Segment(mark)
                yield from line
                yield Segment("\n")
                mark = " " * len(mark)


class _VerbatimMarkdown(Markdown):
    """Shows line breaks as they were written, HTML as text, and the addresses of pictures."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        parser = MarkdownIt().enable(["strikethrough", "table"])
        parser.disable(["html_block", "html_inline", "image"])
        self.parsed = _as_written(parser.parse(markup))


def _as_written(tokens: Iterable[Token]) -> list[Token]:
    """Keep line breaks, and do not show the address of a link that is its text."""
    kept = list[Token]()
    for token in tokens:
        if token.children is not None:
            token.children = _as_written(token.children)
        if token.type == "softbreak":
            token.type = "hardbreak"
        if token.info != "auto":
            kept.append(token)
    return kept


@lru_cache(maxsize=4)
def markdown(block: str, columns: int, *, colours: bool) -> str:
    """Return the rows of Markdown, without a line end."""
    return _printed(_VerbatimMarkdown(block), columns, colours=colours).strip("\n")


@lru_cache(maxsize=4)
def highlight(code: str, language: str, *, colours: bool) -> str:
    """Return code in its colours, its lines uncut."""
    text = Syntax("", language, theme=_CODE_THEME).highlight(code)
    return _printed(text, 80, colours=colours, wraps=False).removesuffix("\n")


def wrap(text: str, columns: int) -> str:
    """Break a plain text's lines between words."""
    lines = Text(text).wrap(_console(columns, colours=False), columns)
    return "\n".join(line.plain.rstrip() for line in lines)


def _printed(what: RenderableType, columns: int, *, colours: bool, wraps: bool = True) -> str:
    console = _console(columns, colours=colours)
    with console.capture() as captured:
        console.print(what, soft_wrap=not wraps, end="")
    return _PADDING.sub("", captured.get())


def _console(columns: int, *, colours: bool) -> Console:
    return Console(
        file=StringIO(),
        width=columns,
        force_terminal=True,
        color_system="standard",
        no_color=not colours,
        theme=Theme(_STYLES),
        highlight=False,
        emoji=False,
        markup=False,
    )
