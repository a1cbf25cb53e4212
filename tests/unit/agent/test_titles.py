"""Titles that sessions have before anybody names them."""

import pytest

from agent_service.records.titles import TITLE_CHARS, made_title, title_of


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Broken login page", "Broken login page"),
        ('"Broken login page."', "Broken login page"),
        ("**Title: Broken login page**", "Broken login page"),
        ("Title: \u201eKaputte Anmeldung\u201c", "Kaputte Anmeldung"),
        ("\n\n# Broken login\nIt is about a page.", "Broken login"),
        ("Set up Node v2. and test", "Set up Node v2. and test"),
        ("\x1b]0;owned\x07 \u202elogin", "]0;owned login"),
        ("!!!\n...", ""),
        ("", ""),
    ],
)
def test_a_model_makes_a_title_of_one_clean_line(text: str, expected: str) -> None:
    assert made_title(text) == expected


def test_a_title_that_a_model_makes_is_short() -> None:
    assert len(made_title("long " * 100)) <= TITLE_CHARS
