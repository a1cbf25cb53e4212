"""Job defaults from a profile's home: the time zone and home channels."""

from collections.abc import Callable, Mapping

import tzlocal
from msgspec import Struct

from scheduler_service.config import SchedulerConfig
from services.config.settings import Settings, load_settings
from services.home.paths import DEFAULT_PROFILE, is_profile_name


class ProfileHome(Struct, frozen=True):
    """Defaults for the jobs of a profile."""

    time_zone: str
    """The time zone of schedules that name none."""
    channels: Mapping[str, str] = {}
    """The home channel of each platform."""


HomeOf = Callable[[str], ProfileHome]
"""Returns the home of a profile by name; reads from the disk."""


def homes_of(settings: Settings) -> HomeOf:
    """Return a reader of profile homes; the zone defaults to the scheduler's, then this
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
    """Return the settings that the profile's own scheduler would have."""
    home = settings.home
    is_inside = home.name == DEFAULT_PROFILE != profile and is_profile_name(profile)
    if not is_inside or not home.profile(profile).root.is_dir():
        return settings
    return load_settings({**settings.flags, "profile": profile}, settings.environ)
