"""Answers in Markdown, as a terminal shows them while they come."""

import re

import pytest

from services.cli.chat.markdown import MarkdownStream
from services.cli.chat.renderer import wrap

WRITTEN = """\
# The **whole** story
- one `a*b` and **bold**
* two *words*, snake_case, 2 ** 3 * 4 and 2**10
  - below
9. ~~nine~~ [Hermes](https://example.org/hermes) <https://example.org>
10. ten
```python
x = a*b  # `not code`, but a line that is longer than the terminal is wide

- not a point
~~~
```
`open and *open
  and a word with <b>tags</b> more than fits in a row
> quoted

---
| left | right |
|------|------:|
| 1    | two   |

last `one`"""

SHOWN = """\
The whole story
• one a*b and bold
• two words, snake_case, 2 ** 3 * 4 and
  2**10
  • below
9. nine Hermes
   (https://example.org/hermes)
   https://example.org
10. ten
x = a*b  # `not code`, but a line that is longer than the terminal is wide

- not a point
~~~
`open and *open
  and a word with <b>tags</b> more than
fits in a row

▌ quoted

----------------------------------------
 left  right
 ───────────
 1       two

last one
"""


def in_pieces(text: str, size: int, *, colours: bool = True) -> str:
    """What is shown of a text that comes in pieces."""
    stream = MarkdownStream(lambda: 40, colours=colours)
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
    return shown + stream.finish()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_a_text_looks_as_it_is_meant() -> None:
    assert plain(in_pieces(WRITTEN, len(WRITTEN))) == SHOWN


@pytest.mark.parametrize("size", range(1, 60))
def test_pieces_of_any_size_look_the_same(size: int) -> None:
    assert in_pieces(WRITTEN, size) == in_pieces(WRITTEN, len(WRITTEN))


@pytest.mark.parametrize(
    ("written", "style"),
    [
        ("# Head", "1"),
        ("**bold**", "1"),
        ("*words*", "3"),
        ("~~gone~~", "9"),
        ("`code`", "36"),
        ("```python\nif\n```", "94"),
        ("```\nplain\n```", "39"),
    ],
)
def test_what_is_marked_has_its_style(written: str, style: str) -> None:
    word = re.sub(r"[^a-z ]|python", "", written.lower().replace("# ", "")).strip()
    assert style == "39" or f"\x1b[{style}m" in in_pieces(written, 1)
    assert word in in_pieces(written, 1).lower()
    assert not re.search(r"\x1b\[(3[0-7]|9[0-7])m", in_pieces(written, 1, colours=False))


def test_what_has_not_ended_is_drawn_and_written_when_it_ends() -> None:
    stream = MarkdownStream(lambda: 40, colours=True)
    assert stream.feed("words, **bo") == ""
    assert stream.pending() == "words, **bo"
    assert stream.feed("ld** and\nmore\n") == ""
    assert plain(stream.pending()) == "words, bold and\nmore"
    assert plain(stream.feed("\nnext")) == "words, bold and\nmore\n"
    assert stream.finish() == "\nnext\n"
    assert stream.pending() == ""


def test_lines_of_code_are_written_one_by_one() -> None:
    stream = MarkdownStream(lambda: 40, colours=True)
    assert plain(stream.feed("```python\nx = 1\ny")) == "x = 1\n"
    assert plain(stream.pending()) == "y"
    assert plain(stream.feed(" = 2\n```\n")) == "y = 2\n"


def test_a_block_of_code_may_end_with_the_text() -> None:
    stream = MarkdownStream(lambda: 40, colours=False)
    assert stream.feed("```\nx = 1\n```") + stream.finish() == "x = 1\n"


def test_lines_break_between_words() -> None:
    assert wrap("one two three\n  four", 9) == "one two\nthree\n  four"
