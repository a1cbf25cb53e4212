"""What people ask of the curator, each of that of its profile."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from scheduler_service.curator_records import (
    CHANNEL,
    Curation,
    CuratorRun,
    Report,
    RunState,
    Settings,
)
from scheduler_service.storage import curator_runs, roll_backs
from scheduler_service.storage.roll_backs import RollBack
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, FailedPrecondition, NotFound

_MOST_REPORTS = 100


class Homes(Protocol):
    """Where libraries, their backups and reports are. Fails as the agent does."""

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        """How curation stands in one profile, or in all."""
        ...

    async def pause(self, profile: str, *, is_paused: bool) -> None:
        """Pause or resume it."""
        ...

    async def restore(self, profile: str, run_id: str, backup_id: str) -> Report:
        """Give a library the content of a backup."""
        ...

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        """What came of earlier runs, the latest first."""
        ...

    def held(self, profile: str) -> AbstractAsyncContextManager[None]:
        """Keep others from a library; SkillsBusy where somebody is at work on it."""
        ...


class Standing(Struct, frozen=True):
    """How the curator stands in a profile."""

    curation: Curation
    is_enabled: bool
    next_run_at: datetime | None
    latest_run: CuratorRun | None


class CuratorDesk:
    """Answers for the curator."""

    def __init__(self, database: Database, homes: Homes, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._homes = homes
        self._clock = clock
        self._settings = settings

    async def standing(self, profile: str) -> Standing:
        """How it stands."""
        curation = await self._curation(profile)
        latest = await self._database.read(partial(curator_runs.latest_run, profile=profile))
        next_run_at = curation.next_run_at(self._settings)
        return Standing(curation, self._settings.is_enabled, next_run_at, latest)

    async def begin(self, profile: str, run_id: str, *, dry_run: bool) -> CuratorRun:
        """Begin a run, or return the one that was begun by the same request."""
        find = partial(curator_runs.find_run, run_id=run_id)
        run = await self._database.read(find)
        if run is None:
            curation = await self._curation(profile)
            insert = partial(
                curator_runs.insert_run,
                run_id=run_id,
                profile=profile,
                now=self._clock.now(),
                dry_run=dry_run,
                after_epoch=curation.epoch,
            )
            await self._database.write(insert, notify=CHANNEL)
            run = await self._database.read(find)
        if run is None:
            raise FailedPrecondition("the curator is at work on these skills; try again later")
        if (run.profile, run.dry_run) != (profile, dry_run):
            raise AlreadyExists(f"the run id {run_id} was used before for another run")
        return run

    async def pause(self, profile: str, *, is_paused: bool) -> Standing:
        """Let it begin by itself no more, or again."""
        await self._curation(profile)
        await self._homes.pause(profile, is_paused=is_paused)
        return await self.standing(profile)

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        """What came of earlier runs, the latest first."""
        await self._curation(profile)
        return await self._homes.reports(profile, most)

    async def roll_back(self, profile: str, run_id: str, backup_id: str) -> Report:
        """Give the library what it had before a run, and jobs the names of its skills then."""
        await self._curation(profile)
        latest = await self._database.read(partial(curator_runs.latest_run, profile=profile))
        if latest is not None and latest.state is RunState.OPEN:
            raise FailedPrecondition("the curator is at work on these skills; try again later")
        known = await self._known(profile, run_id, backup_id)
        if known is not None and known.is_over:
            return await self._answer(known)
        async with self._homes.held(profile):
            # Not before: whoever else was at work may have made another backup.
            asked = await self._asked(await self._curation(profile), run_id, backup_id)
            return await (self._answer(asked) if asked.is_over else self._restore(asked))

    async def _answer(self, asked: RollBack) -> Report:
        """What came of a request that is not made again."""
        return asked.report if asked.report is not None else await self._done_before(asked)

    async def _restore(self, asked: RollBack) -> Report:
        """Go back, while nobody else is at work on the library."""
        try:
            report = await self._homes.restore(asked.profile, asked.restore_id, asked.backup_id)
        except (NotFound, FailedPrecondition):
            await self._database.write(partial(roll_backs.forget, refused=asked))
            raise
        # Only now: where the library has not got its skills back, jobs must not name them.
        finish = partial(roll_backs.finish, asked=asked, report=report, now=self._clock.now())
        await self._database.write(finish)
        return report

    async def _done_before(self, asked: RollBack) -> Report:
        """What a request did whose answer was lost before another one went back: it is not done
        now, as that would take back what was asked for since."""
        reports = await self._homes.reports(asked.profile, _MOST_REPORTS)
        found = next((each for each in reports if each.run_id == asked.restore_id), None)
        if found is None:
            raise FailedPrecondition(
                f"the roll-back {asked.id} has changed nothing that is known of, and another one "
                "was made since; ask for it again under another id"
            )
        return found

    async def _asked(self, curation: Curation, run_id: str, backup_id: str) -> RollBack:
        """What is gone back to, the same whoever asks again: the latest backup is another one as
        soon as the library has been changed."""
        known = await self._known(curation.profile, run_id, backup_id)
        if known is not None:
            return known
        wanted = await self._wanted(curation, run_id, backup_id)
        begin = partial(roll_backs.begin, wanted=wanted, now=self._clock.now())
        return _of_request(await self._database.write(begin), wanted.profile, backup_id)

    async def _known(self, profile: str, run_id: str, backup_id: str) -> RollBack | None:
        """What the same request has asked for before."""
        found = await self._database.read(partial(roll_backs.find, request_id=run_id))
        return None if found is None else _of_request(found, profile, backup_id)

    async def _wanted(self, curation: Curation, run_id: str, backup_id: str) -> RollBack:
        """What a new request is to do: without a name it goes on with what is not done."""
        profile = curation.profile
        if not backup_id:
            begun = await self._database.read(partial(roll_backs.find_open, profile=profile))
            if begun is not None:
                return replace(begun, id=run_id)
        chosen = backup_id or next(iter(curation.backup_ids), "")
        if chosen not in curation.backup_ids:
            raise NotFound(f"there is no backup {chosen}" if chosen else "there is no backup")
        return RollBack(run_id, profile, run_id, chosen)

    async def _curation(self, profile: str) -> Curation:
        found = await self._homes.curations(profile)
        if not found:
            raise NotFound(f"there is no profile {profile}")
        return found[0]


def _of_request(asked: RollBack, profile: str, backup_id: str) -> RollBack:
    """The same; AlreadyExists where another request has its id."""
    if asked.profile != profile or backup_id not in ("", asked.backup_id):
        raise AlreadyExists(f"the run id {asked.id} was used before for another roll-back")
    return asked
