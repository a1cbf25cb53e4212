"""Titles that sessions have before anybody names them."""

import pytest

from agent_service.titles import TITLE_CHARS, title_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the login page. It is broken since Monday.", "Fix the login page"),
        ("what is in here?", "what is in here?"),
        ("Hi Hermes, please look for new mail", "please look for new mail"),
        ("hello", "hello"),
        ("# A plan\n\nfor the week", "A plan"),
        ("```\ncode\n```\nexplain this", "code"),
        ("- **buy** `milk`", "buy milk"),
        ("\n\n  spaces \t between  \n", "spaces between"),
        ("version 1.2.3 fails", "version 1.2.3 fails"),
        ("明日の予定は\uff1f教えて", "明日の予定は\uff1f"),
        ("\x1b[31mred\u202e\0", "[31mred"),
        ("", ""),
        ("!!!", "!!!"),
    ],
)
def test_a_title_is_how_the_first_message_begins(text: str, expected: str) -> None:
    assert title_of(text) == expected
    assert title_of(text) == title_of(text)


def test_a_long_title_ends_with_a_whole_word() -> None:
    title = title_of("please compare the figures of every month with those of the year before it")
    assert title == "please compare the figures of every month with those of the…"
    assert len(title) <= TITLE_CHARS
    assert len(title_of("x" * 500)) == TITLE_CHARS
