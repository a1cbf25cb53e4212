"""Curation of one profile's library, as the scheduler's curator uses it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.curation import backups, reports, snapshot, state
from agent_service.profiles.curation.changes import Draft, Kind
from agent_service.profiles.curation.drafts import Ages, ChangeCollector, transitions
from agent_service.profiles.curation.plan import BadPlan, Plan, parse_plan
from agent_service.profiles.curation.reports import Report, report_of
from agent_service.profiles.curation.rollback import Rollback, changed
from agent_service.profiles.curation.snapshot import KnownSkill, Snapshot
from agent_service.profiles.curation.state import CuratorState
from agent_service.profiles.skills import journal
from agent_service.profiles.skills.files import SkillFiles
from agent_service.profiles.skills.journal import applied
from agent_service.profiles.skills.library import Library
from agent_service.profiles.skills.usage import timestamp
from services.clock import Clock
from services.errors import NotFound, StaleEpoch


class Order(Struct, frozen=True):
    """What a curation run is asked to do."""

    run_id: str
    ages: Ages = Ages()
    plan: str = ""
    plan_failure: str = ""
    job_skills: frozenset[str] = frozenset()
    dry_run: bool = False
    epoch: int = 0
    """Of the run's lease: higher than that of every earlier run and owner."""


JOURNAL = ".curator_journal.json"


class Curation:
    """Changes a library as a whole or not at all."""

    def __init__(self, files: SkillFiles, report_files: SkillFiles, clock: Clock) -> None:
        self._files = files
        self._reports = report_files
        self._library = Library(files)
        self._clock = clock

    async def state(self) -> tuple[CuratorState, Sequence[str]]:
        return await state.read(self._files), await backups.ids(self._files)

    async def update(self, *, is_paused: bool | None, begins: bool) -> None:
        async with self._files.locked():
            now = self._clock.now()
            await state.change(
                self._files, lambda found: found.updated(now, is_paused=is_paused, begins=begins)
            )

    async def mark_reported(self, summary: str) -> None:
        async with self._files.locked():
            now = self._clock.now()
            await state.change(self._files, lambda found: found.with_reported(now, summary))

    async def candidates(self, ages: Ages, jobs: Collection[str]) -> Sequence[KnownSkill]:
        """Return the skills that a model is asked about: unprotected, and not due for archiving."""
        plain = await snapshot.take_snapshot(self._library)
        old = transitions(plain.skills.values(), jobs, self._clock.now(), ages)
        gone = {each.name for each in old if each.kind is Kind.ARCHIVED}
        names = {name for name, held in plain.skills.items() if not held.protection} - gone
        found = await snapshot.take_snapshot(self._library, names)
        return [held for _, held in sorted(found.skills.items()) if held.text]

    async def apply(self, order: Order) -> Report:
        """Make the changes that the rules allow, once for each run."""
        began = self._clock.monotonic()
        plan, failure = Plan(), order.plan_failure
        if order.plan:
            try:
                plan = await asyncio.to_thread(parse_plan, order.plan)
            except BadPlan as error:
                failure = f"the model's plan was not followed: {error}"
        async with self._files.locked():
            if (earlier := await self._earlier(order.run_id, order.epoch)) is not None:
                return earlier
            draft = await self._draft(order, plan)
            report = replace(self._report(order.run_id, draft, failure), epoch=order.epoch)
            if order.dry_run:
                return replace(report, dry_run=True)
            return await self._commit(draft, report, began)

    async def restore(self, run_id: str, backup_id: str) -> Report:
        """Undo the curator's changes since a backup; by default the latest backup of a run."""
        began = self._clock.monotonic()
        async with self._files.locked():
            if (earlier := await self._earlier(run_id)) is not None:
                return earlier
            backup_id = backup_id or await self._latest_backup()
            rollback = Rollback(await backups.content(self._files))
            async for backup in backups.since(self._files, backup_id):
                await asyncio.to_thread(rollback.undo, backup)
            draft = await asyncio.to_thread(rollback.draft)
            report = replace(self._report(run_id, draft, ""), restored_backup_id=backup_id)
            return await self._commit(draft, report, began)

    async def _latest_backup(self) -> str:
        listed = await reports.listed(self._reports, reports.KEPT)
        of_rollbacks = {each.backup_id for each in listed if each.is_restore}
        there = await backups.ids(self._files)
        found = next((each for each in there if each not in of_rollbacks), "")
        if not found:
            raise NotFound("there is no backup of a run")
        return found

    async def reports(self, most: int) -> Sequence[Report]:
        return await reports.listed(self._reports, most)

    async def recover(self) -> None:
        if await self._files.read(JOURNAL, journal.MAX_BYTES) is not None:
            async with self._files.locked():
                await journal.recover(self._files, self._finish, JOURNAL)

    async def _earlier(self, run_id: str, epoch: int | None = None) -> Report | None:
        """Return the report of this run, if it was already made.

        StaleEpoch if a later run, or another run of the same epoch (of another database), has
        changed the library: the plan is outdated.
        """
        await journal.recover(self._files, self._finish, JOURNAL)
        before = await state.read(self._files)
        if before.last_run_id != run_id:
            if epoch is not None and epoch <= before.last_run_epoch:
                raise StaleEpoch("another run of the curator has changed these skills")
            return None
        return await reports.read(self._reports, before.last_report_path.split("/")[-2])

    async def _draft(self, order: Order, plan: Plan) -> Draft:
        wanted = {merge.source for merge in plan.consolidations}
        wanted |= {merge.into for merge in plan.consolidations}
        found = await snapshot.take_snapshot(self._library, wanted)
        return await asyncio.to_thread(_drafted, found, order, plan, self._clock.now())

    def _report(self, run_id: str, draft: Draft, failure: str) -> Report:
        time_told = timestamp(self._clock.now())
        return Report(run_id, time_told, draft.done, draft.refused, plan_failure=failure)

    async def _commit(self, draft: Draft, report: Report, began: float) -> Report:
        now = self._clock.now()
        if draft.done:  # not if only the records of new skills were started
            library = await backups.content(self._files)
            backup = await asyncio.to_thread(_backup, library, draft)
            report = replace(report, backup_id=await backups.make(self._files, backup, now))
        folder = await reports.folder_for(self._reports, now)
        report = replace(
            report,
            path=f"{reports.FOLDER}/{folder}/{reports.REPORT}",
            duration_s=round(self._clock.monotonic() - began, 3),
        )
        entry = journal.Entry(draft.changes, report.stored())
        await journal.commit(self._files, entry, self._finish, JOURNAL)
        return report

    async def _finish(self, stored: Mapping[str, Any]) -> None:
        report = report_of(stored)
        await reports.write(self._reports, report)
        await state.change(self._files, lambda found: found.changed(report))


def _backup(library: Mapping[str, bytes], draft: Draft) -> backups.Backup:
    return backups.Backup(library, changed(library, applied(library, draft.changes)))


def _drafted(found: Snapshot, order: Order, plan: Plan, now: datetime) -> Draft:
    drafting = ChangeCollector(found, order.job_skills, now)
    drafting.transitions(order.ages)
    drafting.plan(plan)
    return drafting.draft()
