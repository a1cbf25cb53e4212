"""The time zones of schedules that name none."""

from collections.abc import Callable

import tzlocal

from scheduler_service.config import SchedulerConfig
from services.config import Settings, load_settings
from services.home import DEFAULT_PROFILE, is_profile_name

ZoneOf = Callable[[str], str]
"""The zone of a profile by its name; reads from the disk."""


def zones_of(settings: Settings) -> ZoneOf:
    """What the settings of a profile's own home say, else the scheduler's, else this machine's."""
    own = settings.load(SchedulerConfig).time_zone

    def zone_of(profile: str) -> str:
        named = settings_of(settings, profile).load(SchedulerConfig).time_zone
        return named or own or tzlocal.get_localzone_name()

    return zone_of


def settings_of(settings: Settings, profile: str) -> Settings:
    """The settings in the home of a profile, as its own scheduler would have them."""
    home = settings.home
    is_inside = home.name == DEFAULT_PROFILE != profile and is_profile_name(profile)
    if not is_inside or not home.profile(profile).root.is_dir():
        return settings
    return load_settings({**settings.flags, "profile": profile}, settings.environ)
