"""A curation that ends while another scheduler looks whether one is due."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa

from scheduler_service.curator_records import Curation, Report
from scheduler_service.storage import curator_runs
from scheduler_service.storage.schema import metadata
from services.database import Database
from services.leases import Lease, new_owner
from tests.integration.test_curator_schedule import Libraries, curation, runs, schedulers


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
