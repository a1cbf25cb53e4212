"""A Telegram bot whose updates come to the gateway's HTTP port."""

from pathlib import Path
from typing import Any

import pytest

from gateway_service.messages import MessageEvent
from gateway_service.platforms.telegram.config import TelegramConfig
from gateway_service.platforms.telegram.platform import TelegramPlatform
from gateway_service.platforms.telegram.webhook import TelegramWebhook
from services.clock import SystemClock
from tests.fakes.model import answers
from tests.fakes.sink import Collected
from tests.fakes.telegram import TOKEN, FakeTelegram, fake_telegram
from tests.integration.http_parts import Api, api
from tests.support.platform_checks import checked

URL, SECRET = "https://hermes.example.org/webhooks/telegram", "0123456789abcdef_-"


async def call(running: Api, telegram: FakeTelegram, body: bytes, secret: str = SECRET) -> int:
    request = telegram.webhook.call({})
    headers = {**request.headers, "x-telegram-bot-api-secret-token": secret}
    async with running.http.post("/webhooks/telegram", data=body, headers=headers) as response:
        return response.status


async def test_updates_are_called_in_and_answered_once(tmp_path: Path) -> None:
    given = {
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_ALLOWED_USERS": "7",
        "TELEGRAM_WEBHOOK_URL": URL,
        "TELEGRAM_WEBHOOK_SECRET": SECRET,
    }
    async with fake_telegram() as telegram:
        given["TELEGRAM_BASE_URL"] = telegram.url
        async with api(tmp_path, answers({"text": "re: {user}"}), **given) as running:
            await telegram.until(lambda: telegram.webhook.url == URL)
            await telegram.say(1, "hello")
            [update] = telegram.updates.values()
            body = telegram.webhook.call(update).body
            assert await call(running, telegram, b"{", "guessed") == 401
            assert await call(running, telegram, body, "guessed") == 401
            assert await call(running, telegram, b"{") == 400
            assert [await call(running, telegram, body) for _ in range(2)] == [200, 200]
            unreadable = b'{"update_id": 7, "message": {"chat": 5}}'
            assert await call(running, telegram, unreadable) == 200
            await telegram.until(lambda: telegram.texts(1) == ["re: hello"])
            assert telegram.calls["getUpdates"] == 0
            assert len(running.model.requests) == 1


async def test_a_replica_without_the_account_knows_who_is_addressed() -> None:
    async with fake_telegram() as telegram:
        bot = TelegramWebhook(config(telegram.url), SystemClock())
        group: dict[str, Any] = {"chat": {"id": -5, "type": "group", "title": "us"}}
        await telegram.say(-5, "@hermes_bot hello", **group)
        await telegram.say(-5, "@other_bot hello", **group)
        telegram.webhook.secret = SECRET
        calls = map(telegram.webhook.call, telegram.updates.values())
        found = [(await bot.webhook(each)).received.events for each in calls]
        [event] = found[0]
        assert isinstance(event, MessageEvent)
        assert (event.text, found[1]) == ("hello", [])


async def test_the_doctor_says_why_telegram_cannot_call() -> None:
    async with fake_telegram() as telegram:
        assert (await checked(config(telegram.url))).message.startswith("@hermes_bot")
        telegram.webhook.problem = "Connection refused"
        found = await checked(config(telegram.url))
        assert found.message == f"telegram cannot call {URL}: Connection refused"


async def test_polling_takes_the_place_of_a_webhook() -> None:
    async with fake_telegram() as telegram, TelegramPlatform(TOKEN, telegram.url) as bot:
        telegram.webhook.url = URL
        await telegram.say(1, "hello")
        assert len(await Collected().take(bot, 1)) == 1
        assert telegram.webhook.url == ""


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"webhook_url": "http://x.org/webhooks/telegram"}, "begin with https"),
        ({"webhook_secret": "short"}, "16 to 256"),
        ({"webhook_secret": "0123456789abcdef!"}, "16 to 256"),
    ],
)
def test_a_webhook_is_secret(changed: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        config("http://x", **changed)


def config(base_url: str, **changed: str) -> TelegramConfig:
    given = {"webhook_url": URL, "webhook_secret": SECRET, **changed}
    return TelegramConfig.model_validate({"token": TOKEN, "base_url": base_url, **given})
