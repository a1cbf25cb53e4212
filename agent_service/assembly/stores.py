"""Stores of profiles and skills, in files of the home or in the database."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from agent_service.assembly.core import Core
from agent_service.config import AgentConfig
from agent_service.profiles.curation import reports
from agent_service.profiles.home.base import HomeStore
from agent_service.profiles.home.files import FileHomes
from agent_service.profiles.home.rows import RowHomes
from agent_service.profiles.skills.bundled_skills import BundledSkills, Package
from agent_service.profiles.skills.files import HomeSkillFiles, SkillFiles
from agent_service.profiles.skills.rows import RowSkillFiles
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.storage.profile_files import RowProfiles
from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profiles import LOCK_WAIT_S, FileProfiles, ProfileStore
from services.clock import Clock
from services.database import Database
from services.database.leases import Owner
from services.home.paths import HomePaths
from services.lifecycle import Workers

_REPORTS_LOCK = ".lock"
_REPORTS = (f"{reports.FOLDER}/", f"{reports.FOLDER}/{_REPORTS_LOCK}")


class Stores(Struct, frozen=True):
    """The stores of one kind, which keep the same files."""

    documents: ProfileStore
    skills: Callable[[str], SkillFiles]
    homes: HomeStore
    reports: Callable[[str], SkillFiles]


def in_files(home: HomePaths) -> Stores:
    """Stores in files of the home."""
    return Stores(
        FileProfiles(home),
        lambda profile: HomeSkillFiles(home.profile(profile).skills),
        FileHomes(home),
        lambda profile: HomeSkillFiles(home.profile(profile).root / reports.FOLDER, _REPORTS_LOCK),
    )


def in_database(
    home: HomePaths, database: Database, owner: Owner, clock: Clock, wait_s: float = LOCK_WAIT_S
) -> Stores:
    """Stores in the database, for replicas that share no disk."""
    locks = RowLocks(database, owner, wait_s)
    return Stores(
        RowProfiles(home, database, locks, clock),
        lambda profile: RowSkillFiles(database, locks, clock, home.profile(profile).name),
        RowHomes(home, database, locks, clock),
        lambda profile: RowSkillFiles(database, locks, clock, home.profile(profile).name, _REPORTS),
    )


COPY_AFTER_S = 2.0
"""Delay before bundled skills are copied, since short-lived commands do not need them."""


def stores_of(core: Core) -> Stores:
    """The stores of the settings."""
    home = core.settings.home
    if core.config.profiles.store == "files":
        return in_files(home)
    return in_database(home, core.database, core.owner, core.clock)


def shelves_of(core: Core, stores: Stores) -> SkillShelves:
    """The skill libraries, with bundled skills if configured."""
    bundled = BundledSkills(Package()) if core.config.skills.bundled else None
    return SkillShelves(stores.skills, core.clock, core.scanner, bundled)


def copy_bundled(
    config: AgentConfig, shelves: SkillShelves, homes: HomeStore, workers: Workers
) -> Callable[[], Awaitable[None]]:
    """Returns a function that starts the copy of the bundled skills in the background."""

    async def copy() -> None:
        await asyncio.sleep(COPY_AFTER_S)
        for profile in await homes.profiles():
            await shelves.for_profile(profile).ready()

    async def start() -> None:
        if config.skills.bundled:
            workers.start("copy of the bundled skills", copy())

    return start
