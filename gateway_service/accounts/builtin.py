"""The table of platforms: every configured account runs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct

from gateway_service.chats.access import Access
from gateway_service.config import GatewayConfig
from gateway_service.platforms.base import HasMenu, HasWebhook, Platform
from gateway_service.platforms.config import PlatformConfig
from gateway_service.platforms.discord.platform import DiscordPlatform
from gateway_service.platforms.email.platform import EmailPlatform
from gateway_service.platforms.homeassistant.platform import HomeAssistantPlatform
from gateway_service.platforms.matrix.platform import MatrixPlatform
from gateway_service.platforms.mattermost.webhook import make_mattermost
from gateway_service.platforms.signal.platform import SignalPlatform
from gateway_service.platforms.slack.webhook import make_slack
from gateway_service.platforms.sms.platform import SmsPlatform
from gateway_service.platforms.telegram.webhook import make_telegram
from gateway_service.platforms.webhook.platform import WebhookPlatform
from gateway_service.platforms.whatsapp.platform import WhatsAppPlatform
from services.home.paths import HomePaths

Factory: TypeAlias = Callable[[Any], Platform]

PLATFORMS: Mapping[str, Factory] = {
    "discord": DiscordPlatform.configured,
    "mattermost": make_mattermost,
    "signal": SignalPlatform,
    "slack": make_slack,
    "email": EmailPlatform,
    "homeassistant": HomeAssistantPlatform,
    "sms": SmsPlatform,
    "telegram": make_telegram,
    "webhook": WebhookPlatform,
    "whatsapp": WhatsAppPlatform,
}
"""By name: makes the account that a platform's settings name."""


class Configured(Struct, frozen=True):
    """A configured account, and who may use it."""

    platform: Platform
    access: Access
    variables: str
    """What the names of its variables begin with."""

    @property
    def menu(self) -> HasMenu | None:
        """Return the platform, if it shows a command menu."""
        return self.platform if isinstance(self.platform, HasMenu) else None

    @property
    def webhook(self) -> HasWebhook | None:
        """Return the platform, if it calls the gateway."""
        return self.platform if isinstance(self.platform, HasWebhook) else None


def make_platform(config: PlatformConfig, home: HomePaths) -> Platform:
    """Return the account of the settings."""
    make_matrix = partial(MatrixPlatform, store=home.state / "matrix")
    return dict[str, Factory](PLATFORMS, matrix=make_matrix)[config.name](config)


def builtin_platforms(config: GatewayConfig, home: HomePaths) -> Sequence[Configured]:
    """Return the configured accounts."""
    return [
        Configured(make_platform(each, home), make_access(each, config), each.variables)
        for each in config.platforms
        if each.is_on
    ]


def make_access(given: PlatformConfig, config: GatewayConfig) -> Access:
    """Return who may talk to an account."""
    behavior = given.unauthorized_dm_behavior or config.unauthorized_dm_behavior
    return Access(
        frozenset(given.allowed_users),
        given.allow_all_users or config.allow_all_users,
        frozenset(given.admins),
        given.allow_commands,
        given.deny_commands,
        behavior == "pair",
        programs=given.programs,
    )
