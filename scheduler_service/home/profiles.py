"""What the home of a profile says of its jobs: their time zone, and where output goes."""

from collections.abc import Callable, Mapping

import tzlocal
from msgspec import Struct

from scheduler_service.config import SchedulerConfig
from services.config.settings import Settings, load_settings
from services.home.paths import DEFAULT_PROFILE, is_profile_name


class ProfileHome(Struct, frozen=True):
    """What holds where a job says nothing else."""

    time_zone: str
    """Of schedules that name none."""
    channels: Mapping[str, str] = {}
    """The chats that output goes to which is for a platform alone, by their platforms."""


HomeOf = Callable[[str], ProfileHome]
"""The home of a profile by its name; reads from the disk."""


def homes_of(settings: Settings) -> HomeOf:
    """What the settings of a profile's own home say; its zone may be the scheduler's, else this
    machine's."""
    own = settings.load(SchedulerConfig).time_zone

    def home_of(profile: str) -> ProfileHome:
        found = _settings_of(settings, profile).load(SchedulerConfig)
        channel = found.telegram_home_channel.strip()
        return ProfileHome(
            found.time_zone or own or tzlocal.get_localzone_name(),
            {"telegram": channel} if channel else {},
        )

    return home_of


def _settings_of(settings: Settings, profile: str) -> Settings:
    """The settings in the home of a profile, as its own scheduler would have them."""
    home = settings.home
    is_inside = home.name == DEFAULT_PROFILE != profile and is_profile_name(profile)
    if not is_inside or not home.profile(profile).root.is_dir():
        return settings
    return load_settings({**settings.flags, "profile": profile}, settings.environ)
