"""Telegram's settings."""

import re
from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section

_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")
_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}")


@section("platforms.telegram.extra", variables="TELEGRAM_")
class TelegramConfig(PlatformConfig):
    """The Telegram bot, and who may talk to it."""

    name: ClassVar[str] = "telegram"
    package: ClassVar[str] = "telegram"
    steps: ClassVar[str] = (
        "Write /newbot to @BotFather in Telegram; it gives you the token. @userinfobot tells "
        "you your number."
    )
    users: ClassVar[str] = "numbers"
    needs: ClassVar[str] = "TELEGRAM_BOT_TOKEN"

    token: Annotated[SecretStr, Yaml("..token"), Env("TELEGRAM_BOT_TOKEN")] = SecretStr("")
    """The bot's token, from @BotFather."""
    base_url: str = "https://api.telegram.org/bot"
    """The URL that the token is appended to; change it to use a Bot API server of your own."""
    webhook_url: str = ""
    """The URL at which Telegram reaches the gateway's HTTP port, such as
    `https://hermes.example.org/webhooks/telegram`; empty fetches messages by long polling."""
    webhook_secret: SecretStr = SecretStr("")
    """A secret that Telegram sends with each call to `webhook_url`: 16 to 256 letters, digits, `_`
    and `-`."""

    @model_validator(mode="after")
    def _is_well_formed(self) -> "TelegramConfig":
        token = self.token.get_secret_value()
        if token and not _TOKEN.fullmatch(token):
            raise ValueError("TELEGRAM_BOT_TOKEN must look like 123456:ABC-def")
        if self.webhook_url and not self.webhook_url.startswith("https://"):
            raise ValueError("TELEGRAM_WEBHOOK_URL must begin with https://")
        if self.webhook_url and not _SECRET.fullmatch(self.webhook_secret.get_secret_value()):
            raise ValueError(
                "TELEGRAM_WEBHOOK_URL needs TELEGRAM_WEBHOOK_SECRET: 16 to 256 letters, digits, "
                "_ and -"
            )
        return self
