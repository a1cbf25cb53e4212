"""Telegram through the gateway with the real agent, against a Bot API server on a socket."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.model import answers, fake_model
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.gateway_parts import Hermes, hermes


@asynccontextmanager
async def bot(
    folder: Path, script: dict[str, Any], yaml: str = ""
) -> AsyncGenerator[tuple[FakeTelegram, Hermes]]:
    """A bot that people 7 and 8 may talk to, whose model is scripted."""
    async with fake_telegram() as telegram, fake_model(script) as model:
        environ = {
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_BASE_URL": telegram.url,
            "TELEGRAM_ALLOWED_USERS": "7, 8",
        }
        async with hermes(folder, model.url, yaml, environ) as running:
            yield telegram, running


async def test_a_message_is_answered_in_its_place(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "**Hello** & welcome"})) as (telegram, _):
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) == ["Hello & welcome"])
        [shown] = telegram.chats[1].values()
        assert shown.html == "<b>Hello</b> &amp; welcome"
        assert shown.versions[0] == "…"


async def test_strangers_are_not_answered(tmp_path: Path) -> None:
    async with bot(tmp_path, answers({"text": "Hello!"})) as (telegram, _):
        await telegram.say(2, "let me in", user_id=666)
        await telegram.say(1, "hi")
        await telegram.until(lambda: telegram.texts(1) == ["Hello!"])
        assert not telegram.chats[2]
