"""Taking over the jobs of an older home when a scheduler starts, once for each of its profiles."""

import asyncio
import logging
from functools import partial
from pathlib import Path

from scheduler_service.job_keeper import JobKeeper
from scheduler_service.moving import JobFile, JobMover, Moved
from scheduler_service.storage import imports
from services.clock import Clock
from services.database import Database
from services.errors import HermesError
from services.home import HomePaths
from services.home_files import profiles_of
from services.home_jobs import MARK, held_by, jobs_file, scripts_of

_log = logging.getLogger(__name__)

_AGAIN_S = 10.0


class HomeImporter:
    """Reads `cron/jobs.json` of the scheduler's own home, and of the profiles in it.

    While another program holds the lock of the home's gateway or jobs, nothing is taken, and never
    what another database keeps, so that no job runs in both.
    """

    def __init__(
        self,
        database: Database,
        mover: JobMover,
        clock: Clock,
        home: HomePaths,
        keeper: JobKeeper,
    ) -> None:
        self._database = database
        self._keeper = keeper
        self._mover = mover
        self._clock = clock
        self._home = home
        self._told: set[str] = set()

    async def take(self) -> bool:
        """Take what can be taken now; whether something has to wait."""
        waits = False
        for profile in await asyncio.to_thread(profiles_of, self._home):
            try:
                waits = await self._take(profile) or waits
            except (HermesError, OSError) as error:
                waits = True
                self._tell_once(profile, f"the jobs of profile {profile} are not taken: {error}")
        return waits

    async def run(self) -> None:
        """Take the rest as soon as that is possible."""
        while await self.take():
            await self._clock.sleep(_AGAIN_S)

    async def drain(self) -> None:
        """Nothing is under way that would have to end."""

    async def _take(self, profile: str) -> bool:
        home = self._home.profile(profile)
        path = jobs_file(home.root)
        if not await asyncio.to_thread(path.is_file):
            return False
        if await self._database.read(partial(imports.is_closed, profile=profile)):
            # One that was taken before there were marks is marked now.
            await self._keeper.other(profile)
            return False
        if lock := await asyncio.to_thread(_lock, self._home.root, home.root):
            self._tell_once(
                profile,
                f"the jobs of {path} are not taken while another program holds {lock}; stop it, "
                "and they are",
            )
            return True
        # The mark is there first: who dies now takes the jobs after the next start.
        if other := await self._keeper.other(profile):
            self._tell_once(profile, _kept_by_another(path, home, profile, other))
            return False
        file = await asyncio.to_thread(_read, path, home, profile)
        _report(path, await self._mover.take(file))
        return False

    def _tell_once(self, profile: str, text: str) -> None:
        if profile not in self._told:
            self._told.add(profile)
            _log.warning("%s", text)


def _kept_by_another(path: Path, home: HomePaths, profile: str, other: str) -> str:
    is_own = other == str(home.database("scheduler"))
    runs = f", and run with: hermes up --profile {profile}" if is_own else ""
    return (
        f"the jobs of {path} are not taken: they are kept in {other}{runs}; if that database is "
        f"gone for good, remove {home.root / MARK} and start again"
    )


def _lock(*roots: Path) -> str:
    return next((lock for root in roots if (lock := held_by(root))), "")


def _read(path: Path, home: HomePaths, profile: str) -> JobFile:
    return JobFile(
        profile, path.read_bytes(), scripts=scripts_of(home.root), closes_home=True, once=True
    )


def _report(path: Path, moved: list[Moved]) -> None:
    taken = sum(each.is_new for each in moved)
    if moved:
        _log.info("%s: %s of %s jobs are taken", path, taken, len(moved))
    for each in moved:
        what = f"job {each.name!r}" + (f" ({each.job_id})" if each.job_id else " is not taken")
        if each.notes:
            _log.warning("%s: %s: %s", path, what, "; ".join(each.notes))
