"""The chats that output goes to which is for a platform alone."""

from collections.abc import Callable, Mapping

from scheduler_service.config import SchedulerConfig
from scheduler_service.zones import settings_of
from services.config import Settings

ChannelsOf = Callable[[str], Mapping[str, str]]
"""The home channels of a profile, by their platforms; reads from the disk."""


def channels_of(settings: Settings) -> ChannelsOf:
    """What the settings of a profile's own home say."""

    def of(profile: str) -> Mapping[str, str]:
        channel = settings_of(settings, profile).load(SchedulerConfig).telegram_home_channel
        return {"telegram": channel.strip()} if channel.strip() else {}

    return of


def no_channels(_profile: str) -> Mapping[str, str]:
    """Nobody has any."""
    return {}
