"""Due times that pass while a run is under way, the scheduler is down, or the clock is set."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.storage.schema import metadata
from services.database import Database
from tests.integration.scheduler_parts import SetClock, Wire, scheduler

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database(sqlite_url, "scheduler") as opened:
        await opened.migrate(metadata.create_all)
        yield opened


async def test_an_interval_keeps_its_rhythm_however_late_its_runs_are(
    database: Database, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "every 2h")
        for count, late in enumerate([0, 50 * MINUTE, 1], 1):
            clock.step(2 * HOUR + late)
            await running.look()
            await running.finished("x", count)
            clock.step(-late)
        found = await running.finished("x", 3)
        job = await running.catalog.get("default", "x")
    assert [run.scheduled_for for run in found] == [NOON + timedelta(hours=h) for h in (6, 4, 2)]
    assert job.next_run_at == NOON + timedelta(hours=8)


async def test_a_jobs_runs_do_not_overlap_and_what_came_due_meanwhile_is_one_run(
    database: Database, wire: Wire
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "every 1m", "wait done")
        clock.step(MINUTE)
        await running.look()
        (first,) = await wire.turns.started(1)
        clock.step(3 * MINUTE + 30)
        await running.look()
        await running.create("probe", "1s")
        clock.step(1)
        await running.look()
        await running.finished("probe")
        assert len(await running.claimed("x")) == 1
        wire.turns.release(first)
        latest, *_ = await running.claimed("x", 2)
        wire.turns.release(latest.id)
        found = await running.finished("x", 2)
    assert [run.scheduled_for for run in found] == [
        NOON + timedelta(minutes=4),
        NOON + timedelta(minutes=1),
    ]
    assert running.metric("hermes_cron_missed_total", policy="once") == 1
