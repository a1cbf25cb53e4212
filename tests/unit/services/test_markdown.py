"""Answers in Markdown, as a terminal shows them while they come."""

import pytest

from services.cli.chat.markdown import BOLD, CODE, ITALIC, MarkdownStream

WRITTEN = """\
# The **whole** story
- one `a*b` and **bold**
* two *words*, snake_case, 2 ** 3 * 4 and 2**10
  - below
```python
x = a*b  # `not code`

- not a point
~~~
```
`open and *open
---
***
> **
last `one`"""


def in_pieces(text: str, size: int) -> str:
    """What is shown of a text that comes in pieces; a style that ends to begin again goes on."""
    stream = MarkdownStream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
    return (shown + stream.finish()).replace(CODE[1] + CODE[0], "")


def styled(text: str, style: tuple[str, str]) -> str:
    return f"{style[0]}{text}{style[1]}"


def test_a_text_looks_as_it_is_meant() -> None:
    assert in_pieces(WRITTEN, len(WRITTEN)).split("\n") == [
        styled("The whole story", BOLD),
        f"• one {styled('a*b', CODE)} and {styled('bold', BOLD)}",
        f"• two {styled('words', ITALIC)}, snake_case, 2 ** 3 * 4 and 2**10",
        "  • below",
        styled("x = a*b  # `not code`", CODE),
        "",
        styled("- not a point", CODE),
        styled("~~~", CODE),
        "`open and *open",
        "---",
        "***",
        "> **",
        f"last {styled('one', CODE)}",
    ]


@pytest.mark.parametrize("size", range(1, 60))
def test_pieces_of_any_size_look_the_same(size: int) -> None:
    assert in_pieces(WRITTEN, size) == in_pieces(WRITTEN, len(WRITTEN))


def test_words_are_shown_as_they_come_and_marks_when_they_are_sure() -> None:
    stream = MarkdownStream()
    assert [stream.feed(piece) for piece in ("wo", "rds, **bo", "ld** and", " more")] == [
        "wo",
        "rds, ",
        f"{styled('bold', BOLD)} and",
        " more",
    ]
    assert stream.feed(" `open") == " "
    assert stream.finish() == "`open"
    assert stream.feed("# new") == f"{BOLD[0]}new"


def test_a_block_of_code_may_end_with_the_text() -> None:
    stream = MarkdownStream()
    assert stream.feed("```\nx = 1\n```") + stream.finish() == f"{styled('x = 1', CODE)}\n"
