"""Curations of several schedulers: of one database, and of two that serve the same home."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest_asyncio
import sqlalchemy as sa

from scheduler_service.curation_lock import CurationLocks
from scheduler_service.curator_records import Curation, Report
from scheduler_service.storage import curator_runs
from scheduler_service.storage.schema import metadata
from services.database import Database
from services.home import HomePaths
from services.leases import Lease, new_owner
from tests.integration.test_curator_schedule import Libraries, curation, ended, runs, schedulers


class Ending(Libraries):
    """The run of somebody else ends just after it was said what its skills are like."""

    def __init__(self, *curations: Curation) -> None:
        super().__init__(*curations)
        self.end: Callable[[], Awaitable[None]] | None = None

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        known = await super().curations(profile)
        if profile and self.end is not None:
            await self.end()
        return known


async def test_a_run_that_ends_while_another_scheduler_looks_is_not_made_again(
    database: Database,
) -> None:
    await database.migrate(metadata.create_all)
    leases, now = curator_runs.run_leases(30), datetime.now(UTC)

    def begin(connection: sa.Connection) -> Lease:
        assert curator_runs.insert_run(connection, "one", "default", now, dry_run=False)
        ((lease, _),) = curator_runs.take(connection, leases, new_owner("other"), 9)
        return lease

    lease, report = await database.write(begin), Report("one", now, "done")
    libraries = Ending(curation())
    close = partial(curator_runs.close_run, leases=leases, lease=lease, outcome=report, now=now)
    libraries.end = partial(database.write, close)
    async with schedulers(database, libraries):
        await asyncio.sleep(0.5)
        assert [run.id for run in await runs(database)] == ["one"]


@pytest_asyncio.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """The databases of two Hermes that serve the same home."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("inside", "alone")]
    async with Database(urls[0], "scheduler") as inside, Database(urls[1], "scheduler") as alone:
        yield inside, alone


async def test_two_hermes_do_not_curate_the_same_home_together(
    two: tuple[Database, Database], tmp_path: Path
) -> None:
    home = HomePaths(tmp_path, tmp_path)
    await asyncio.to_thread((tmp_path / "profiles" / "w2").mkdir, parents=True)
    inside = Libraries(curation("w2"), locks=CurationLocks(home))
    # By itself it is the home, whose profile is the usual one.
    alone = Libraries(curation(), locks=CurationLocks(home.profile("w2"), wait_s=0.1))
    inside.may_answer.clear()
    async with schedulers(two[0], inside):
        await inside.is_asked.wait()
        async with schedulers(two[1], alone):
            (left,) = await ended(two[1])
            assert "another Hermes is at work on the skills" in left.error
        inside.may_answer.set()
        (made,) = await ended(two[0], profile="w2")
        assert not made.error
    assert not alone.asked
    async with alone.held("default"):
        pass  # whoever has ended holds it no more


async def test_what_another_hermes_has_done_meanwhile_is_not_done_again(
    two: tuple[Database, Database],
) -> None:
    database, _ = two
    await database.migrate(metadata.create_all)
    now = datetime.now(UTC)
    begin = partial(
        curator_runs.insert_run, run_id="one", profile="default", now=now, dry_run=False
    )
    await database.write(begin)
    libraries = Libraries(curation(last_run_at=now + timedelta(seconds=1)))
    async with schedulers(database, libraries):
        (run,) = await ended(database)
        assert "has looked after these skills" in run.error
    assert (libraries.asked.total(), libraries.orders) == (0, [])
