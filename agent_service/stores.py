"""Where profiles are kept: as files of the home, or in the database."""

from collections.abc import Callable

from msgspec import Struct

from agent_service.curation import reports
from agent_service.home.base import HomeStore
from agent_service.home.files import FileHomes
from agent_service.home.rows import RowHomes
from agent_service.skills.files import HomeSkillFiles, SkillFiles
from agent_service.skills.rows import RowSkillFiles
from agent_service.storage.profile_locks import RowLocks
from agent_service.storage.profile_rows import RowProfiles
from agent_service.storage.profiles import LOCK_WAIT_S, FileProfiles, ProfileStore
from services.clock import Clock
from services.database import Database
from services.home import HomePaths
from services.leases import Owner

_REPORTS_LOCK = ".lock"
_REPORTS = (f"{reports.FOLDER}/", f"{reports.FOLDER}/{_REPORTS_LOCK}")


class Stores(Struct, frozen=True):
    """The stores of one kind, which keep the same files."""

    documents: ProfileStore
    skills: Callable[[str], SkillFiles]
    homes: HomeStore
    reports: Callable[[str], SkillFiles]
    """The curator's, of a profile."""


def in_files(home: HomePaths) -> Stores:
    """Files of the home."""
    return Stores(
        FileProfiles(home),
        lambda profile: HomeSkillFiles(home.profile(profile).skills),
        FileHomes(home),
        lambda profile: HomeSkillFiles(home.profile(profile).root / reports.FOLDER, _REPORTS_LOCK),
    )


def in_database(
    home: HomePaths, database: Database, owner: Owner, clock: Clock, wait_s: float = LOCK_WAIT_S
) -> Stores:
    """Rows of the database, for replicas that share no disk."""
    locks = RowLocks(database, owner, wait_s)
    return Stores(
        RowProfiles(home, database, locks, clock),
        lambda profile: RowSkillFiles(database, locks, clock, home.profile(profile).name),
        RowHomes(home, database, locks, clock),
        lambda profile: RowSkillFiles(
            database,
            locks,
            clock,
            home.profile(profile).name,
            _REPORTS,
        ),
    )
