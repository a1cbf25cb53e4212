"""What becomes of due times that were slept through: how long, by which policy, across which
change of clocks, and with a clock that was set wrong meanwhile; through planner and database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.jobs import RunState
from scheduler_service.options import Missed
from scheduler_service.storage.schema import metadata
from services.database import Database
from tests.integration.scheduler_parts import (
    SchedulerUnderTest,
    SetClock,
    Wire,
    scheduler,
)

SPRING, AUTUMN = datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)
"""When the clocks of Berlin change: from 2:00 to 3:00, and from 3:00 to 2:00."""
DOWN_S = {"10 s": 10, "2 h": 7200, "3 d": 259_200}
STEPS_S = {"-1 h": -3600, "0": 0, "+1 h": 3600}
SLACK = timedelta(seconds=5)
JOBS = {"often": "*/30 * * * *", "daily": "30 2 * * *"}
CAP = 3

TABLE = """
spring | 10 s | -1 h | often | -              | -    | -
spring | 10 s | 0    | often | 0              | 0    | 0
spring | 10 s | +1 h | often | 60             | 60   | 0 30 60
spring | 2 h  | -1 h | often | 0              | 0    | -30 0
spring | 2 h  | 0    | often | 60             | 60   | 0 30 60
spring | 2 h  | +1 h | often | 120            | 120  | 60 90 120
spring | 3 d  | -1 h | often | 2100           | 2100 | 2040 2070 2100
spring | 3 d  | 0    | often | 2160           | 2160 | 2100 2130 2160
spring | 3 d  | +1 h | often | 2220           | 2220 | 2160 2190 2220
spring | 10 s | -1 h | daily | -              | -    | -
spring | 10 s | 0    | daily | 0              | 0    | 0
spring | 10 s | +1 h | daily | -              | 0    | 0
spring | 2 h  | -1 h | daily | 0              | 0    | 0
spring | 2 h  | 0    | daily | -              | 0    | 0
spring | 2 h  | +1 h | daily | -              | 0    | 0
spring | 3 d  | -1 h | daily | -              | 1410 | -1410 0 1410
spring | 3 d  | 0    | daily | -              | 1410 | -1410 0 1410
spring | 3 d  | +1 h | daily | -              | 1410 | -1410 0 1410
autumn | 10 s | -1 h | often | -              | -    | -
autumn | 10 s | 0    | often | 0              | 0    | 0
autumn | 10 s | +1 h | often | 60             | 60   | 0 30 60
autumn | 2 h  | -1 h | often | 0              | 0    | -30 0
autumn | 2 h  | 0    | often | 60             | 60   | 0 30 60
autumn | 2 h  | +1 h | often | 120            | 120  | 60 90 120
autumn | 3 d  | -1 h | often | 2100           | 2100 | 2040 2070 2100
autumn | 3 d  | 0    | often | 2160           | 2160 | 2100 2130 2160
autumn | 3 d  | +1 h | often | 2220           | 2220 | 2160 2190 2220
autumn | 10 s | -1 h | daily | -              | -    | -
autumn | 10 s | 0    | daily | -              | -    | -
autumn | 10 s | +1 h | daily | -              | -    | -
autumn | 2 h  | -1 h | daily | -              | -30  | -30
autumn | 2 h  | 0    | daily | -              | -30  | -30
autumn | 2 h  | +1 h | daily | -              | -30  | -30
autumn | 3 d  | -1 h | daily | -              | 1470 | -1470 -30 1470
autumn | 3 d  | 0    | daily | -              | 1470 | -1470 -30 1470
autumn | 3 d  | +1 h | daily | -              | 1470 | -1470 -30 1470
"""
"""Change of clocks, time without a scheduler, step of the clock, job, and the due times that got a
run with skip, once and all, in minutes from the change. Half of the time lies before the change."""


def expected(change: str, down: str, step: str) -> dict[tuple[str, Missed], list[int]]:
    """What the table says, by job and policy."""
    rows = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
    found = [row[3:] for row in rows if row[:3] == [change, down, step]]
    policies = (Missed.SKIP, Missed.ONCE, Missed.ALL)
    return {
        (name, policy): [] if cell == "-" else [int(minutes) for minutes in cell.split()]
        for name, *cells in found
        for policy, cell in zip(policies, cells, strict=True)
    }


async def runs_of(
    running: SchedulerUnderTest, clock: SetClock, job_id: str, change: datetime
) -> list[int]:
    """The due times of a job that got a run, once nothing is left to do for it."""
    while True:
        job = await running.catalog.get("default", job_id)
        found = await running.catalog.runs("default", job_id, 1000)
        is_over = all(run.state is RunState.SUCCEEDED for run in found)
        if is_over and job.next_run_at is not None and job.next_run_at > clock.now():
            times = sorted(run.scheduled_for for run in found)
            return [int((at - change).total_seconds() // 60) for at in times]
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("step", STEPS_S)
@pytest.mark.parametrize("down", DOWN_S)
@pytest.mark.parametrize("change", ["spring", "autumn"])
async def test_it_is_made_up_for_as_the_table_says(
    sqlite_url: str, wire: Wire, change: str, down: str, step: str
) -> None:
    wanted = expected(change, down, step)
    assert len(wanted) == 6, "the table is complete"
    changed_at = SPRING if change == "spring" else AUTUMN
    asleep = timedelta(seconds=DOWN_S[down])
    clock = SetClock(changed_at - asleep / 2 + (SLACK if asleep > 2 * SLACK else timedelta()))
    async with Database(sqlite_url, "scheduler") as database:
        await database.migrate(metadata.create_all)
        async with scheduler(database, wire, clock=clock) as before:
            for name, policy in wanted:
                await before.create(
                    f"{name}-{policy}",
                    JOBS[name],
                    time_zone="Europe/Berlin",
                    missed_run_policy=policy,
                    max_missed_runs=CAP,
                )
        clock.step(asleep.total_seconds() + STEPS_S[step])
        async with scheduler(database, wire, clock=clock) as after:
            found = {
                (name, policy): await runs_of(after, clock, f"{name}-{policy}", changed_at)
                for name, policy in wanted
            }
            assert found == wanted
            # The clock is put right: what has run does not run again.
            clock.step(-STEPS_S[step])
            await after.look()
            for name, policy in wanted:
                times = await runs_of(after, clock, f"{name}-{policy}", changed_at)
                assert times[: len(found[name, policy])] == found[name, policy]
                assert len(times) == len(set(times))
