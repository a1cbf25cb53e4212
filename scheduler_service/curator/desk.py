"""What people ask of the curator, each of that of its profile."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from scheduler_service.curation import Curation, CuratorSettings, Libraries, Report
from scheduler_service.jobs import Run
from scheduler_service.runs.planner import CHANNEL
from scheduler_service.storage import curation, runs
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, FailedPrecondition, NotFound


class Standing(Struct, frozen=True):
    """How the curator stands in a profile."""

    curation: Curation
    is_enabled: bool
    next_run_at: datetime | None
    latest_run: Run | None


class CuratorDesk:
    """Answers for the curator."""

    def __init__(
        self, database: Database, libraries: Libraries, clock: Clock, settings: CuratorSettings
    ) -> None:
        self._database = database
        self._libraries = libraries
        self._clock = clock
        self._settings = settings

    async def standing(self, profile: str) -> Standing:
        """How it stands."""
        found = await self._curation(profile)
        find = partial(runs.list_runs, job_id=curation.job_id_of(profile), limit=1)
        latest = await self._database.read(find)
        next_run_at = found.next_run_at(self._settings)
        return Standing(found, self._settings.is_enabled, next_run_at, next(iter(latest), None))

    async def begin(self, profile: str, run_id: str, *, dry_run: bool) -> Run:
        """Begin a run, or return the one that was begun by the same request."""
        run = await self._database.read(partial(runs.find_run, run_id=run_id))
        if run is None:
            found = await self._curation(profile)
            now = self._clock.now()
            wanted = curation.Wanted(profile, run_id, now, found.epoch, dry_run=dry_run)
            begin = partial(curation.begin, wanted=wanted)
            run = await self._database.write(begin, notify=CHANNEL)
        if run is None or (run.job_id, run.dry_run) != (curation.job_id_of(profile), dry_run):
            raise AlreadyExists(f"the run id {run_id} was used before for another run")
        return run

    async def pause(self, profile: str, *, is_paused: bool) -> Standing:
        """Let it begin by itself no more, or again."""
        await self._libraries.update(profile, is_paused=is_paused)
        return await self.standing(profile)

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        """What came of earlier runs, the latest first."""
        await self._curation(profile)
        return await self._libraries.reports(profile, most)

    async def roll_back(self, profile: str, run_id: str, backup_id: str) -> Report:
        """Give the library what it had before a run, and jobs the names of its skills then.

        Asked for again, both are as they are to be already.
        """
        await self._database.read(partial(curation.check_idle, profile=profile))
        report = await self._libraries.restore(profile, run_id, backup_id)
        if not report.restored_backup_id:
            raise FailedPrecondition("nothing was restored under this id; roll back with a new one")
        # Only now: where the library has not got its skills back, jobs must not name them.
        undo = partial(
            curation.undo_names,
            profile=profile,
            backup_id=report.restored_backup_id,
            now=self._clock.now(),
        )
        await self._database.write(undo)
        return report

    async def _curation(self, profile: str) -> Curation:
        found = await self._libraries.curations(profile)
        if not found:
            raise NotFound(f"there is no profile {profile}")
        return found[0]
