"""Telegram's webhook, in place of long polling: Telegram calls the gateway's HTTP port."""

import hmac

from gateway_service.errors import Unreachable
from gateway_service.platforms.base import Sink, WebhookRequest, WebhookResult, stay_alive
from gateway_service.platforms.telegram.config import TelegramConfig
from gateway_service.platforms.telegram.events import drop_unreadable
from gateway_service.platforms.telegram.platform import TelegramPlatform
from services.clock import Clock, SystemClock
from services.validation import json_object

_SIGNED = "x-telegram-bot-api-secret-token"


class TelegramWebhook(TelegramPlatform):
    """A bot that Telegram calls."""

    def __init__(self, config: TelegramConfig, clock: Clock) -> None:
        super().__init__(config.token.get_secret_value(), config.base_url)
        self._url, self._clock = config.webhook_url, clock
        self._secret = config.webhook_secret.get_secret_value()

    async def listen(self, sink: Sink) -> None:
        await self._set_webhook(self._url, self._secret)
        await stay_alive(sink, self._clock)

    async def check(self) -> str:
        """Connect, and ask Telegram whether its last calls failed."""
        async with self:
            problem = await self._webhook_problem()
        if problem:
            raise Unreachable(f"telegram cannot call {self._url}: {problem}")
        return self.identity

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        given = request.headers.get(_SIGNED, "")
        if not hmac.compare_digest(given.encode(errors="replace"), self._secret.encode()):
            return WebhookResult(401, b"the secret token is wrong")
        from telegram import Update

        update = json_object(request.body)
        if update is None or not isinstance(update.get("update_id"), int):
            return WebhookResult(400, b"not an update of Telegram")
        if not self.identity:
            # This replica does not hold the account; the name says who is addressed in groups.
            async with TelegramPlatform(self._token, self._base_url) as bot:
                self.identity = bot.identity
        [found] = drop_unreadable({"result": [update]})["result"]
        return WebhookResult(received=self._received([Update.de_json(found, None)]))


def make_telegram(config: TelegramConfig) -> TelegramPlatform:
    """Return the bot's account: Telegram calls it only if it has a webhook."""
    if config.webhook_url:
        return TelegramWebhook(config, SystemClock())
    return TelegramPlatform(config.token.get_secret_value(), config.base_url)
