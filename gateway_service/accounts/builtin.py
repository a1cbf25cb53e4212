"""THE list of platforms: what is configured is what runs."""

from collections.abc import Sequence

from msgspec import Struct

from gateway_service.chats.access import Access
from gateway_service.config import GatewayConfig
from gateway_service.platforms.base import HasMenu, Platform
from gateway_service.platforms.telegram import TelegramPlatform


class Configured(Struct, frozen=True):
    """An account that is to be run, and who may talk to it."""

    platform: Platform
    access: Access
    menu: HasMenu | None = None
    """The platform, where it shows commands to choose from."""


def builtin_platforms(config: GatewayConfig) -> Sequence[Configured]:
    """The accounts that are configured."""
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
