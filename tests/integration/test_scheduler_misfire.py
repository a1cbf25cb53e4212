"""Due times that pass while a run is under way, the scheduler is down, or the clock is set."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.jobs import RunState
from scheduler_service.storage.schema import metadata
from services.database import Database
from tests.integration.scheduler_parts import SetClock, Wire, fake_services, scheduler

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with fake_services() as services:
        yield services


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


@pytest.mark.parametrize(
    ("schedule", "down", "runs_for"),
    [
        ("in 5s", 10, 5),
        ("in 5s", 2 * HOUR, 5),
        ("in 5s", 3 * DAY, 5),
        ("every 1m", 2 * HOUR + 5, 2 * HOUR),
        ("every 1m", 3 * DAY + 5, 3 * DAY),
        ("0 13 * * *", 2 * HOUR, HOUR),
        ("0 13 * * *", 3 * DAY, 2 * DAY + HOUR),
        ("0 13 * * mon", 3 * DAY, None),  # longer ago than is made up for
    ],
)
async def test_after_a_time_without_schedulers_the_last_due_time_is_made_up_for(
    database: Database, wire: Wire, schedule: str, down: int, runs_for: int | None
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as before:
        await before.create("x", schedule)
    clock.step(down)
    async with scheduler(database, wire, clock=clock) as after:
        await after.create("probe", "1s")
        clock.step(1)
        await after.look()
        await after.finished("probe")
        found = await after.finished("x", 1 if runs_for else 0)
        job = await after.catalog.get("default", "x")
    expected = [NOON + timedelta(seconds=runs_for)] if runs_for else []
    assert [run.scheduled_for for run in found] == expected
    assert job.next_run_at is None or job.next_run_at > clock.now()


@pytest.mark.parametrize("step", [-HOUR, HOUR])
async def test_a_clock_that_is_set_repeats_no_due_time(
    database: Database, wire: Wire, step: int
) -> None:
    clock = SetClock(NOON)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", "every 30m")
        clock.step(30 * MINUTE)
        await running.look()
        await running.finished("x", 1)
        clock.step(step)
        for count in range(6):
            clock.step(30 * MINUTE)
            await running.create(f"probe{count}", "1s")
            clock.step(1)
            await running.look()
            await running.finished(f"probe{count}")
        found = await running.claimed("x")
    times = [run.scheduled_for for run in found]
    assert len(set(times)) == len(times)
    assert {run.state for run in found} == {RunState.SUCCEEDED}
    wall = 30 * MINUTE + step + 6 * 30 * MINUTE
    assert times[0] == NOON + timedelta(seconds=wall)
    # Set back, the time that is lived through twice has no further runs; set forward, the time
    # that is jumped over has the one that makes up for it.
    assert len(times) == (5 if step < 0 else 7)


@pytest.mark.parametrize(
    ("zone_text", "start", "expected"),
    [
        ("30 2 * * *", datetime(2026, 3, 29, 0, tzinfo=UTC), datetime(2026, 3, 29, 1, tzinfo=UTC)),
        (
            "30 2 * * *",
            datetime(2026, 10, 24, 22, tzinfo=UTC),
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        ),
    ],
)
async def test_a_night_with_a_change_of_clocks_has_one_run(
    database: Database, wire: Wire, zone_text: str, start: datetime, expected: datetime
) -> None:
    clock = SetClock(start)
    async with scheduler(database, wire, clock=clock) as running:
        await running.create("x", zone_text, time_zone="Europe/Berlin")
        for quarter in range(24):
            clock.step(15 * MINUTE)
            await running.create(f"probe{quarter}", "1s")
            clock.step(1)
            await running.look()
            await running.finished(f"probe{quarter}")
        found = await running.claimed("x")
    assert [run.scheduled_for for run in found] == [expected]
