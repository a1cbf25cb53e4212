"""Going back to a backup: jobs follow, and it is made once however often it is asked for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.curation_lock import CurationLocks
from scheduler_service.curator_desk import CuratorDesk
from scheduler_service.curator_records import (
    Curation,
    Done,
    Report,
)
from scheduler_service.errors import SkillsBusy
from scheduler_service.options import JobOptions
from scheduler_service.storage import curator_runs, jobs
from scheduler_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.errors import (
    AlreadyExists,
    FailedPrecondition,
    HermesError,
    NotFound,
    ServiceUnavailable,
)
from services.home import HomePaths
from services.leases import new_owner
from tests.integration.test_curator_schedule import NO_LOCKS, SOON, curation
from tests.integration.test_scheduler_storage import job_of


class Homes:
    """A home that has a backup, and is given one; scripted, as the agent serves it."""

    def __init__(self, locks: CurationLocks = NO_LOCKS) -> None:
        self.held = locks.held
        self.backup_ids: tuple[str, ...] = ("20260101-120000",)
        self.restored: list[tuple[str, str]] = []
        self.written: list[Report] = []
        self.failure: HermesError | None = None
        self.is_answer_lost = False
        """It is given one, and whoever asks does not hear of that."""

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        return [curation(profile, backup_ids=self.backup_ids)]

    async def pause(self, profile: str, *, is_paused: bool) -> None:
        raise NotImplementedError

    async def restore(self, profile: str, run_id: str, backup_id: str) -> Report:
        self.restored.append((run_id, backup_id))
        # What it has now is kept, too, whatever comes of it.
        self.backup_ids = ("20260102-120000", "20260101-120000")
        if self.failure is not None:
            raise self.failure
        self.written.append(Report(run_id, datetime.now(UTC), "skills: 1 restored"))
        if self.is_answer_lost:
            raise ServiceUnavailable("the connection was cut")
        return self.written[-1]

    async def reports(self, profile: str, most: int) -> Sequence[Report]:
        return self.written[-most:]


def renamed(connection: sa.Connection) -> None:
    """A job whose skill was merged by a run that began with the backup."""
    options = JobOptions(skills=("notes/mail-send",))
    jobs.insert_job(connection, replace(job_of(1), options=options), "")
    # Whatever its category, it is the same skill.
    assert curator_runs.skills_of_jobs(connection, "default") == {"mail-send"}
    now = datetime.now(UTC)
    assert curator_runs.insert_run(connection, "one", "default", now, dry_run=False)
    leases = curator_runs.run_leases()
    ((lease, _),) = curator_runs.take(connection, leases, new_owner("me"), 9)
    merged = Done("merged", "mail-send", into="mail")
    report = Report("one", now, "done", backup_id="20260101-120000", changes=(merged,))
    curator_runs.close_run(connection, leases, lease, report, now)


async def test_jobs_get_the_names_back_after_the_library_and_however_often_it_is_asked_for(
    database: Database,
) -> None:
    await database.migrate(metadata.create_all)
    await database.write(renamed)
    homes = Homes()
    desk = CuratorDesk(database, homes, SystemClock(), SOON)

    async def names() -> tuple[str, ...]:
        stored = await database.read(partial(jobs.find_job, job_id="job1"))
        assert stored is not None
        return stored.job.options.skills

    assert await names() == ("mail",)
    homes.failure = ServiceUnavailable("changes of the skills are half made")
    with pytest.raises(ServiceUnavailable):
        await desk.roll_back("default", "back", "")
    assert await names() == ("mail",)
    homes.failure = None
    # Asked for anew and without a name: the latest backup is another one by now.
    done = await desk.roll_back("default", "again", "")
    assert await names() == ("notes/mail-send",)
    assert homes.restored == [("back", "20260101-120000")] * 2
    for request_id in ("back", "again"):
        assert await desk.roll_back("default", request_id, "") == done
    assert len(homes.restored) == 2
    with pytest.raises(AlreadyExists):
        await desk.roll_back("default", "back", "20260102-120000")
    with pytest.raises(NotFound, match="no backup 2020"):
        await desk.roll_back("default", "other", "2020")
    homes.failure = FailedPrecondition("the backup is damaged")
    with pytest.raises(FailedPrecondition):
        await desk.roll_back("default", "damaged", "20260101-120000")
    homes.failure = None
    await desk.roll_back("default", "latest", "")
    assert homes.restored[-1] == ("latest", "20260102-120000")


@pytest.mark.parametrize("was_done", [True, False])
async def test_a_rollback_is_not_made_after_another_one_and_answers_with_what_it_did(
    database: Database, was_done: bool
) -> None:
    await database.migrate(metadata.create_all)
    homes = Homes()
    desk = CuratorDesk(database, homes, SystemClock(), SOON)
    homes.is_answer_lost = was_done
    homes.failure = None if was_done else ServiceUnavailable("the agent is away")
    with pytest.raises(ServiceUnavailable):
        await desk.roll_back("default", "old", "")
    homes.is_answer_lost, homes.failure = False, None
    explicit = await desk.roll_back("default", "new", "20260102-120000")
    asked = list(homes.restored)
    for _ in range(2):
        if was_done:
            assert await desk.roll_back("default", "old", "") == homes.written[0]
        else:
            with pytest.raises(FailedPrecondition, match="under another id"):
                await desk.roll_back("default", "old", "")
    assert await desk.roll_back("default", "new", "") == explicit
    assert homes.restored == asked
    assert (await desk.roll_back("default", "next", "")).run_id == "next"


@pytest.mark.parametrize(
    ("outcome", "dry_run", "wanted"),
    [
        (Report("run", datetime.now(UTC), "1 merged", backup_id="20260103-120000"), False, "new"),
        (Report("run", datetime.now(UTC), "nothing to do"), False, "back"),
        (Report("run", datetime.now(UTC), "1 merged", dry_run=True), True, "back"),
        ("the agent is away", False, "back"),
    ],
)
async def test_a_rollback_is_gone_on_with_until_the_curator_has_changed_something(
    database: Database, outcome: Report | str, dry_run: bool, wanted: str
) -> None:
    await database.migrate(metadata.create_all)
    homes = Homes()
    desk = CuratorDesk(database, homes, SystemClock(), SOON)
    homes.failure = ServiceUnavailable("the agent is away")
    with pytest.raises(ServiceUnavailable):
        await desk.roll_back("default", "back", "")
    homes.failure = None

    def run(connection: sa.Connection) -> None:
        now = datetime.now(UTC)
        assert curator_runs.insert_run(connection, "run", "default", now, dry_run=dry_run)
        leases = curator_runs.run_leases()
        ((lease, _),) = curator_runs.take(connection, leases, new_owner("me"), 9)
        curator_runs.close_run(connection, leases, lease, outcome, now)

    await database.write(run)
    homes.backup_ids = ("20260103-120000", "20260101-120000")
    await desk.roll_back("default", "new", "")
    backup_id = "20260103-120000" if wanted == "new" else "20260101-120000"
    assert homes.restored[1:] == [(wanted, backup_id)]


@pytest.mark.parametrize("is_begun", [True, False])
async def test_while_another_hermes_is_at_work_a_rollback_is_neither_begun_nor_forgotten(
    database: Database, tmp_path: Path, is_begun: bool
) -> None:
    await database.migrate(metadata.create_all)
    home = HomePaths(tmp_path, tmp_path)
    homes = Homes(CurationLocks(home, wait_s=0.1))
    desk = CuratorDesk(database, homes, SystemClock(), SOON)
    if is_begun:
        homes.failure = ServiceUnavailable("changes of the skills are half made")
        with pytest.raises(ServiceUnavailable):
            await desk.roll_back("default", "back", "")
        homes.failure = None
    async with CurationLocks(home).held("default"):
        for request_id in ("back", "again"):
            with pytest.raises(SkillsBusy):
                await desk.roll_back("default", request_id, "")
        homes.backup_ids = ("20260103-120000", *homes.backup_ids)
    await desk.roll_back("default", "again", "")
    wanted = ("back", "20260101-120000") if is_begun else ("again", "20260103-120000")
    assert homes.restored[-1] == wanted
