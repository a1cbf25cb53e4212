"""Markdown is cut without breaking what it says, and turned into HTML that Telegram reads."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_service.platforms.markup import first_part, split, to_html, units
from tests.fakes.telegram_rules import checked

WORDS = st.text(alphabet="ab cd\n`*_[]()#>-🦉é", max_size=400)
FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


def test_length_is_counted_as_platforms_do() -> None:
    assert units("abc") == 3
    assert units("é") == 1
    assert units("🦉") == 2


@given(WORDS, st.integers(min_value=40, max_value=120))
@example("```\n" + "x" * 200, 40)
@example("```python\n" * 30, 40)
@example("[a link](https://example.com/" + "x" * 100 + ")", 40)
def test_no_part_is_too_long_and_nothing_is_lost(text: str, limit: int) -> None:
    parts = split(text, limit)
    assert parts
    assert all(units(part) <= limit for part in parts)

    def letters(said: str) -> str:
        return re.sub(r"[^abcdé🦉]", "", said)

    if "```" not in text:
        assert letters("".join(parts)) == letters(text)


@given(st.lists(st.text(alphabet="xyz 🦉", min_size=1, max_size=60), min_size=1, max_size=30))
def test_a_block_of_code_is_closed_and_opened_again(lines: list[str]) -> None:
    code = "\n".join(lines)
    parts = split(f"Before\n```python\n{code}\n```\nAfter", 80)
    inside: list[str] = []
    for part in parts:
        assert len(FENCE.findall(part)) % 2 == 0
        inside += re.findall(r"```python\n(.*?)\n?```", part, re.DOTALL)
    assert "".join(inside).replace("\n", "") == code.replace("\n", "")


def test_links_code_and_words_stay_whole() -> None:
    link, code = "[the answer](https://example.com/42)", "`rm -rf /tmp/x y z`"
    text = " ".join(["some words"] * 3 + [link, code] * 4)
    parts = split(text, 60)
    assert sum(part.count(link) for part in parts) == 4
    assert sum(part.count(code) for part in parts) == 4
    assert not any(re.search(r"\bsom$|^e\b", part) for part in parts)


def test_what_is_longer_than_a_part_is_cut_anyway() -> None:
    parts = split("🦉" * 100, 31)
    assert [units(part) for part in parts] == [30] * 6 + [20]
    assert "".join(parts) == "🦉" * 100


def test_a_text_that_is_being_written_shows_its_beginning() -> None:
    assert first_part("short", 40) == "short"
    shown = first_part("word " * 40, 40)
    assert units(shown) <= 40
    assert shown.endswith("…")


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**bold** and __bold__", "<b>bold</b> and <b>bold</b>"),
        ("*it* and _it_, ~~no~~", "<i>it</i> and <i>it</i>, <s>no</s>"),
        ("***both***", "<b><i>both</i></b>"),
        ("2*3*4 and snake_case_name", "2*3*4 and snake_case_name"),
        ("`a < b && *c*`", "<code>a &lt; b &amp;&amp; *c*</code>"),
        ("``a ` b``", "<code>a ` b</code>"),
        ("# A *big* title ##", "<b>A <i>big</i> title</b>"),
        ("- one\n  * two", "• one\n  • two"),
        ("> quoted\n> twice\nnot", "<blockquote>quoted\ntwice</blockquote>\nnot"),
        ("---", "———"),
        ("[t](https://x.y/?a=1&b=2)", '<a href="https://x.y/?a=1&amp;b=2">t</a>'),
        ('[t](https://x/"onclick)', '<a href="https://x/&quot;onclick">t</a>'),
        ("[t](javascript:alert)", "t (javascript:alert)"),
        ("![seen](http://i/p.png)", '<a href="http://i/p.png">seen</a>'),
        ("<script>&", "&lt;script&gt;&amp;"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>'),
        ("~~~\na\n~~~", "<pre>a</pre>"),
        ("````\n```\n````", "<pre>```</pre>"),
        ("```\nnever closed", "<pre>never closed</pre>"),
        ("```py", "```py"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>"),
        ("**open and `open", "**open and `open"),
    ],
)
def test_formatting(markdown: str, html: str) -> None:
    assert to_html(markdown) == html


@given(WORDS)
@example("**a *b** c*")
@example("> **a\n> b**")
@example("```a")
def test_telegram_can_read_whatever_is_made(text: str) -> None:
    html = to_html(text)
    assert not text.strip() or html.strip()
    if re.sub(r"[^ab cdé🦉]", "", text).strip():
        visible, _ = checked({"text": html, "parse_mode": "HTML"})
        assert units(visible) <= units(text) + text.count("(")
