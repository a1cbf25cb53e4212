"""The time zone of a profile's jobs, from its home."""

from collections.abc import Callable
from typing import TypeAlias

import tzlocal

from scheduler_service.config import SchedulerConfig
from services.config.settings import Settings, load_settings
from services.home.paths import DEFAULT_PROFILE, is_profile_name

ZoneOf: TypeAlias = Callable[[str], str]
"""Returns the time zone of a profile's schedules that name none; reads from the disk."""


def zones_of(settings: Settings) -> ZoneOf:
    """Return a reader of profiles' time zones; the default is the scheduler's, then this
    machine's."""
    own = settings.load(SchedulerConfig).time_zone

    def zone_of_profile(profile: str) -> str:
        found = _settings_of(settings, profile).load(SchedulerConfig)
        return found.time_zone or own or tzlocal.get_localzone_name()

    return zone_of_profile


def _settings_of(settings: Settings, profile: str) -> Settings:
    home = settings.home
    is_inside = home.name == DEFAULT_PROFILE != profile and is_profile_name(profile)
    if not is_inside or not home.profile(profile).root.is_dir():
        return settings
    return load_settings({**settings.flags, "profile": profile}, settings.environ)
