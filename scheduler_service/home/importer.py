"""Imports the jobs of an older home at the start of a scheduler, once for each profile."""

import asyncio
import logging
import os
import tempfile
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from scheduler_service.home.mover import ImportedJob, JobFile, JobMover, is_closed
from services.clock import Clock
from services.database import Database
from services.errors import FailedPrecondition, HermesError
from services.home.files import profiles_of
from services.home.jobs import MARK, held_by, jobs_file, kept_by, scripts_of
from services.home.paths import DEFAULT_PROFILE, HomeError, HomePaths, is_profile_name

_log = logging.getLogger(__name__)

_AGAIN_S = 10.0


class JobKeeper:
    """Records in a profile's home which database keeps its jobs."""

    def __init__(self, home: HomePaths, url: str) -> None:
        """`url` is the scheduler's database."""
        self._home = home
        self._url = sa.make_url(url)

    async def other(self, profile: str) -> str:
        """Return the other database that keeps a profile's jobs, or claim them for this one."""
        return await asyncio.to_thread(self._other, profile)

    async def check(self, profile: str) -> None:
        """Raise FailedPrecondition if another existing database keeps a profile's jobs."""
        other = await self.other(profile)
        if other and await asyncio.to_thread(Path(other).is_file):
            name = self._home.name if profile == DEFAULT_PROFILE else profile
            how = "" if name == DEFAULT_PROFILE else f", with: hermes jobs --profile {name}"
            raise FailedPrecondition(
                f"the jobs of profile {name} are kept in {other}, which is not this scheduler's "
                f"database; add it there{how}"
            )

    def _other(self, profile: str) -> str:
        if not is_profile_name(profile) or not self._home.profile(profile).root.is_dir():
            return ""  # it has no home here
        root = self._home.profile(profile).root
        name = self._name(root)
        try:
            found = kept_by(root)
            if not found:
                _mark(root / MARK, name)
                found = kept_by(root)
        except OSError as error:
            if self._url.get_backend_name() != "sqlite":
                return ""  # it is not writable, so no other database can have marked it
            raise HomeError(f"{root / MARK} cannot be made: {error.strerror}") from None
        return "" if found == name else _describe(root, found)

    def _name(self, root: Path) -> str:
        """Name the database without secrets; relative to the home, so that the home may move."""
        url = self._url
        if url.get_backend_name() != "sqlite" or not url.database:
            plain = sa.URL.create(url.drivername, None, None, url.host, url.port, url.database)
            return plain.render_as_string()
        path = Path(url.database).absolute()
        return os.path.relpath(path, root) if path.parent == self._home.state else str(path)


def _mark(path: Path, name: str) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(f"{name}\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return  # another database was faster
    finally:
        Path(temporary).unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _describe(root: Path, name: str) -> str:
    return name if "://" in name else os.path.normpath(root / name)


class HomeImporter:
    """Imports `cron/jobs.json` of all profiles, unless another program or database has the jobs."""

    def __init__(
        self, database: Database, mover: JobMover, clock: Clock, home: HomePaths, keeper: JobKeeper
    ) -> None:
        self._database = database
        self._keeper = keeper
        self._mover = mover
        self._clock = clock
        self._home = home
        self._told: set[str] = set()

    async def take(self) -> bool:
        """Import what is possible now; return whether something has to wait."""
        waits = False
        for profile in await asyncio.to_thread(profiles_of, self._home):
            try:
                waits = await self._take(profile) or waits
            except (HermesError, OSError) as error:
                waits = True
                self._tell_once(profile, f"the jobs of profile {profile} are not taken: {error}")
        return waits

    async def run(self) -> None:
        """Import the rest as soon as that is possible."""
        while await self.take():
            await self._clock.sleep(_AGAIN_S)

    async def _take(self, profile: str) -> bool:
        home = self._home.profile(profile)
        path = jobs_file(home.root)
        if not await asyncio.to_thread(path.is_file):
            return False
        if await self._database.read(partial(is_closed, profile=profile)):
            return False
        if lock := await asyncio.to_thread(_lock, self._home.root, home.root):
            self._tell_once(
                profile,
                f"the jobs of {path} are not taken while another program holds {lock}; stop it, "
                "and they are",
            )
            return True
        # Mark first: after a crash, the next start imports the jobs.
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


def _report(path: Path, moved: list[ImportedJob]) -> None:
    taken = sum(each.outcome == "taken" for each in moved)
    if moved:
        _log.info("%s: %s of %s jobs are taken", path, taken, len(moved))
    for each in moved:
        what = f"job {each.name!r}" + (f" ({each.job_id})" if each.job_id else " is not taken")
        if each.notes:
            _log.warning("%s: %s: %s", path, what, "; ".join(each.notes))
