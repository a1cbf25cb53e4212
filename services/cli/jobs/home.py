"""Which scheduler has the jobs of a profile: its own home's, or that of the home above."""

import argparse
import asyncio

from services.cli.connection import is_running
from services.config.settings import Settings, load_settings
from services.home.jobs import DATABASE_ABOVE, kept_by
from services.home.paths import DEFAULT_PROFILE


async def at_jobs(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Return the settings of the home whose scheduler has the jobs.

    The home's mark decides; without one, a running scheduler, and else the profile's own.
    """
    if settings.home.name == DEFAULT_PROFILE:
        return settings
    kept = await asyncio.to_thread(kept_by, settings.home.root)
    if kept == DATABASE_ABOVE:
        return _there(await asyncio.to_thread(_above, settings), settings, arguments)
    return settings if kept else await at_library(settings, arguments)


async def at_library(settings: Settings, arguments: argparse.Namespace) -> Settings:
    """Return the settings of the home whose services curate a profile's skills now."""
    if settings.home.name == DEFAULT_PROFILE or await is_running(settings):
        return settings
    above = await asyncio.to_thread(_above, settings)
    return _there(above, settings, arguments) if await is_running(above) else settings


def _above(settings: Settings) -> Settings:
    return load_settings({**settings.flags, "profile": DEFAULT_PROFILE}, settings.environ)


def _there(above: Settings, settings: Settings, arguments: argparse.Namespace) -> Settings:
    # Requests need the profile's name, even if only the environment gives it.
    arguments.profile = settings.profile
    return above
