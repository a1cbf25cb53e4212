"""Discord's settings."""

import re
from base64 import b64decode
from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section

_TOKEN = re.compile(r"([A-Za-z0-9_-]{2,40})\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def find_account(token: str) -> str:
    """Return the bot's user id, which its token begins with; empty if it is no token."""
    found = _TOKEN.fullmatch(token)
    try:
        user_id = b64decode(found[1] + "==", altchars=b"-_") if found else b""
    except ValueError:
        return ""
    return user_id.decode() if user_id.isdigit() else ""


@section("platforms.discord.extra", variables="DISCORD_")
class DiscordConfig(PlatformConfig):
    """The Discord bot, and who may talk to it."""

    name: ClassVar[str] = "discord"
    package: ClassVar[str] = "discord"
    steps: ClassVar[str] = (
        "At https://discord.com/developers/applications make an application. Under Bot, reset "
        "the token and switch on the message content intent. Under Installation, invite the bot "
        "with the scopes bot and applications.commands, and the permissions View Channels, Send "
        "Messages, Send Messages in Threads, Attach Files and Read Message History."
    )
    needs: ClassVar[str] = "DISCORD_BOT_TOKEN"

    token: Annotated[SecretStr, Yaml("..token"), Env("DISCORD_BOT_TOKEN")] = SecretStr("")
    """The bot's token, from the page Bot of its application on discord.com/developers."""
    base_url: str = "https://discord.com/api/v10"
    """The URL of Discord's API."""

    @model_validator(mode="after")
    def _is_well_formed(self) -> "DiscordConfig":
        token = self.token.get_secret_value()
        if token and not find_account(token):
            raise ValueError(
                "DISCORD_BOT_TOKEN is no bot token, which has three parts with dots between them"
            )
        return self
