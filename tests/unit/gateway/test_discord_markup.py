"""Models' Markdown as Discord shows it."""

from pathlib import Path

import pytest
from discord import Permissions

from gateway_service.platforms.discord.config import find_account
from gateway_service.platforms.discord.events import MESSAGE_CHARS, render
from tests.fakes.discord_rules import BOT, TOKEN

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("# One\n### Three", "# One\n### Three"),
        ("#### Four ##", "**Four**"),
        ("see ![a cat](https://x.y/c.png)!", "see [a cat](https://x.y/c.png)!"),
        (f"before\n{TABLE}", f"before\n```\n{TABLE}\n```"),
        (f"{TABLE}\n\nafter", f"```\n{TABLE}\n```\n\nafter"),
        (f"```md\n{TABLE}\n#### x\n```", f"```md\n{TABLE}\n#### x\n```"),
        ("a | b\nno table", "a | b\nno table"),
    ],
)
def test_markdown_is_shown(markdown: str, shown: str) -> None:
    assert render(markdown) == shown


def test_nothing_grows_beyond_a_message() -> None:
    text = f"{TABLE}\n\n{'x' * (MESSAGE_CHARS - len(TABLE) - 2)}"
    assert len(text) == MESSAGE_CHARS
    assert render(text) == text


def test_a_token_names_its_account() -> None:
    assert find_account(TOKEN) == BOT
    assert find_account("123456:ABC-def") == find_account("a.b.c") == find_account("") == ""


def test_the_guide_asks_for_what_is_needed() -> None:
    page = Path(__file__).parents[3] / "docs" / "platforms" / "discord.md"
    needed = Permissions(
        view_channel=True,
        send_messages=True,
        send_messages_in_threads=True,
        attach_files=True,
        read_message_history=True,
    )
    assert f"permissions={needed.value}`" in page.read_text()
