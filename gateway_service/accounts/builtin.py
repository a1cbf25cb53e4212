"""The table of platforms: every configured account runs."""

from collections.abc import Sequence

from msgspec import Struct

from gateway_service.chats.access import Access
from gateway_service.config import GatewayConfig
from gateway_service.platforms.base import HasMenu, Platform
from gateway_service.platforms.telegram import TelegramPlatform


class Configured(Struct, frozen=True):
    """A configured account, and who may use it."""

    platform: Platform
    access: Access
    menu: HasMenu | None = None
    """The platform, if it shows a command menu."""


def builtin_platforms(config: GatewayConfig) -> Sequence[Configured]:
    """Return the configured accounts."""
    found: list[Configured] = []
    telegram = config.telegram
    if telegram.is_on:
        access = Access(
            frozenset(telegram.allowed_users),
            telegram.allow_all_users or config.allow_all_users,
            frozenset(telegram.admins),
            telegram.allow_commands,
            telegram.deny_commands,
        )
        platform = TelegramPlatform(telegram.token.get_secret_value(), telegram.base_url)
        found.append(Configured(platform, access, platform))
    return found
