"""Which profiles the curator is to run in, and the runs that are stored for them."""

import logging
from datetime import timedelta
from functools import partial
from typing import Protocol

import sqlalchemy as sa

from scheduler_service.curator_records import Curation, CuratorRun, Libraries, Report, Settings
from scheduler_service.errors import CallRefused
from scheduler_service.storage import curator_runs
from services.clock import Clock
from services.database import Database
from services.errors import FailedPrecondition, NotFound, Unavailable
from services.ids import new_id

REST = timedelta(days=1)
"""After a failed run, before the next one that nobody asked for."""

REFUSED = (CallRefused, NotFound, FailedPrecondition)
"""What says that it is in vain to ask again."""

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """Where the curator's work is counted."""

    def last_run(self, timestamp_s: float) -> None: ...

    def done(self, report: Report) -> None: ...


class Due:
    """Looks at all profiles."""

    def __init__(
        self,
        database: Database,
        libraries: Libraries,
        *,
        clock: Clock,
        settings: Settings,
        observer: Observer,
    ) -> None:
        self._database = database
        self._libraries = libraries
        self._clock = clock
        self._settings = settings
        self._observer = observer
        self._complaints: dict[str, str] = {}
        """By profile; empty is all of them."""

    async def begin(self) -> None:
        """Store runs for the profiles that are due; what is wrong with one holds up no other."""
        try:
            curations = await self._libraries.curations()
        except (Unavailable, *REFUSED) as error:
            self._complain("", f"libraries of skills are not looked after: {error}")
            return
        self._complain("", "")
        for curation in curations:
            try:
                await self._begin_if_due(curation)
            except (Unavailable, *REFUSED) as error:
                why = f"the skills of {curation.profile} are not looked after: {error}"
                self._complain(curation.profile, why)
            else:
                self._complain(curation.profile, "")

    async def _begin_if_due(self, curation: Curation) -> None:
        if curation.last_run_at is not None:
            self._observer.last_run(curation.last_run_at.timestamp())
        if not self._settings.is_enabled:
            return
        if curation.last_run_at is None:
            await self._libraries.begin(curation.profile)
        elif curation.is_due(self._settings, self._clock.now()):
            await self._begin_once(curation.profile)

    async def _begin_once(self, profile: str) -> None:
        """Store a run unless another scheduler has, also one that has made its run meanwhile."""
        find = partial(curator_runs.latest_run, profile=profile)
        latest = await self._database.read(find)
        if latest is not None and latest.finished_at is None:
            # It may end, and have changed everything, between the next two questions.
            return
        # Asked again: what a run up to the latest has done is known now, and a later one shows.
        again = await self._libraries.curations(profile)
        for each in again:
            if each.profile == profile and each.is_due(self._settings, self._clock.now()):
                await self._database.write(partial(self._begin, curation=each, after=latest))

    def _complain(self, profile: str, why: str) -> None:
        """Say once what is wrong, however often it is looked at."""
        if why and self._complaints.get(profile) != why:
            _log.warning("%s", why)
        self._complaints[profile] = why

    def _begin(
        self, connection: sa.Connection, curation: Curation, after: CuratorRun | None
    ) -> None:
        now, profile = self._clock.now(), curation.profile
        latest = curator_runs.latest_run(connection, profile)
        if (latest and latest.id) != (after and after.id):
            return
        failed_at = None if latest is None or not latest.error else latest.finished_at
        if failed_at is not None and now - failed_at < REST:
            return
        curator_runs.insert_run(
            connection, new_id("cur"), profile, now, dry_run=False, after_epoch=curation.epoch
        )
