"""The gateway's settings."""

import re
from datetime import tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gateway_service.config_busy import BusyConfig
from gateway_service.config_resets import SessionResetConfig
from services.config import ConfigModel, Env, Yaml

_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}")


def _zone(name: str) -> str:
    try:
        return name and ZoneInfo(name).key
    except (OSError, ValueError):
        raise ValueError(f"{name!r} is no IANA time zone such as Europe/Rome") from None


class TelegramConfig(ConfigModel):
    """The Telegram bot, and who may talk to it."""

    enabled: Annotated[bool | None, Yaml("platforms.telegram.enabled")] = None
    """Whether the bot is used; unset means that it is when it has a token."""
    token: Annotated[SecretStr, Yaml("platforms.telegram.token"), Env("TELEGRAM_BOT_TOKEN")] = (
        SecretStr("")
    )
    """The bot's token, from @BotFather."""
    base_url: Annotated[
        str, Yaml("platforms.telegram.extra.base_url"), Env("TELEGRAM_BASE_URL")
    ] = "https://api.telegram.org/bot"
    """What the token is appended to; another for a Bot API server of your own."""
    allowed_users: Annotated[
        tuple[str, ...],
        Yaml("platforms.telegram.extra.allowed_users"),
        Env("TELEGRAM_ALLOWED_USERS"),
    ] = ()
    """Numbers of the people who may talk to Hermes; nobody else is answered."""
    allow_all_users: Annotated[bool, Env("TELEGRAM_ALLOW_ALL_USERS")] = False
    """Let everybody on Telegram talk to Hermes and run its commands."""
    admins: Annotated[
        tuple[str, ...], Yaml("platforms.telegram.extra.admins"), Env("TELEGRAM_ADMINS")
    ] = ()
    """Numbers of those of them who may say the commands that change the deployment or cost; empty
    means whoever is the only one who may talk, and nobody where several may."""
    allow_commands: Annotated[
        dict[str, tuple[str, ...]], Yaml("platforms.telegram.extra.commands.allow")
    ] = Field(default_factory=dict[str, tuple[str, ...]])
    """Commands that are allowed, such as `cron` or `cron list`, by the number of a person; `*` is
    everybody, or all commands, and `skill` those of all skills."""
    deny_commands: Annotated[
        dict[str, tuple[str, ...]], Yaml("platforms.telegram.extra.commands.deny")
    ] = Field(default_factory=dict[str, tuple[str, ...]])
    """Commands that are refused, likewise; what is refused to everybody is not to admins."""

    @property
    def is_on(self) -> bool:
        """Whether there is a bot to be run."""
        return bool(self.token.get_secret_value()) if self.enabled is None else self.enabled

    @model_validator(mode="after")
    def _has_token(self) -> "TelegramConfig":
        token = self.token.get_secret_value()
        if self.enabled and not token:
            raise ValueError("platforms.telegram is enabled; set TELEGRAM_BOT_TOKEN for it")
        if token and not _TOKEN.fullmatch(token):
            raise ValueError("TELEGRAM_BOT_TOKEN must look like 123456:ABC-def")
        return self


class GatewayConfig(ConfigModel):
    """What the gateway service can be configured with."""

    telegram: TelegramConfig
    session_reset: SessionResetConfig
    busy: BusyConfig
    time_zone: Annotated[str, AfterValidator(_zone), Yaml("timezone"), Env("HERMES_TIMEZONE")] = ""
    """IANA time zone in which chats begin a new day; empty is the machine's."""
    allow_all_users: Annotated[bool, Env("GATEWAY_ALLOW_ALL_USERS")] = False
    """Let everybody on every platform talk to Hermes and run its commands."""
    group_sessions_per_user: Annotated[bool, Yaml("group_sessions_per_user")] = True
    """Whether each person has a session of their own in a group."""
    thread_sessions_per_user: Annotated[bool, Yaml("thread_sessions_per_user")] = False
    """The same in the threads of a group."""
    lease_s: Annotated[
        float, Field(ge=3, le=300), Yaml("gateway.lease_s"), Env("HERMES_GATEWAY_LEASE_S")
    ] = 30.0
    """Seconds after which a replica that does not answer loses its chat accounts to another."""

    @property
    def zone(self) -> tzinfo | None:
        """The time zone; None is the machine's."""
        return ZoneInfo(self.time_zone) if self.time_zone else None


MODELS: tuple[type[ConfigModel], ...] = (GatewayConfig,)
"""What `hermes config` shows of this service."""
