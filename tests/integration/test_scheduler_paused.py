"""A job that is paused runs no more until it is resumed: neither what waits nor what is retried."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.jobs import JobState, RunState
from scheduler_service.storage import migrations
from services.database import Database
from services.database.migrations import prepare
from tests.integration.scheduler_parts import SchedulerUnderTest, SetClock, Wire, scheduler

# Far ahead of the clock by which the runner waits, so that a start that is put off stays so.
NOON = datetime(2100, 1, 4, 12, tzinfo=UTC)


class Scene:
    """A scheduler, and the clock that it looks at."""

    def __init__(self, running: SchedulerUnderTest, clock: SetClock) -> None:
        self.running = running
        self._clock = clock

    async def a_minute_passes(self) -> None:
        self._clock.step(60)
        await self.running.look()

    async def attempted(self, job_id: str, number: int) -> None:
        """Return once the run waits for an attempt."""
        async with asyncio.timeout(20):
            while (await self.running.claimed(job_id))[0].attempt.number != number:  # noqa: ASYNC110 - rows
                await asyncio.sleep(0.02)


@pytest.fixture
async def scene(sqlite_url: str, wire: Wire) -> AsyncIterator[Scene]:
    clock = SetClock(NOON)
    async with Database(sqlite_url, "scheduler") as database:
        await prepare(database, migrations)
        async with scheduler(database, wire, clock=clock) as running:
            yield Scene(running, clock)


async def test_what_waits_for_its_start_or_its_retry_is_cancelled(scene: Scene, wire: Wire) -> None:
    running = scene.running
    await running.create("late", "every 1m", "answer hello", jitter=timedelta(seconds=86_400))
    await running.create(
        "again", "every 1m", "fail", max_retries=3, retry_backoff=timedelta(seconds=3600)
    )
    await scene.a_minute_passes()
    (late,) = await running.claimed("late")
    await scene.attempted("again", 2)
    (again,) = await running.claimed("again")
    assert (again.state, again.error) == (RunState.CLAIMED, "the turn failed"), (
        "of its first attempt"
    )
    failed = "; its last attempt had failed: the turn failed"
    for job_id, last in (("late", ""), ("again", failed)):
        paused = await running.catalog.pause("default", job_id)
        assert paused.state is JobState.PAUSED
        (run,) = await running.claimed(job_id)
        assert (run.state, run.error) == (RunState.CANCELLED, f"the job was paused{last}")
    await running.catalog.pause("default", "again")
    assert late.id not in wire.turns.requests
    # Nothing is waited for any more, so that the next due time gets its run.
    await running.catalog.resume("default", "again")
    await scene.a_minute_passes()
    new, _ = await running.claimed("again", 2)
    assert new.state in (RunState.CLAIMED, RunState.RUNNING)


async def test_a_turn_that_fails_after_the_pause_is_the_last(scene: Scene, wire: Wire) -> None:
    running = scene.running
    await running.create(
        "x", "every 1m", "wait so far", timeout=timedelta(seconds=1), max_retries=9
    )
    await scene.a_minute_passes()
    (turn_id,) = await wire.turns.started(1)
    await wire.turns.watched(turn_id, 1)
    await running.catalog.pause("default", "x")
    (run,) = await running.finished("x")
    assert (run.state, run.attempt.number) == (RunState.FAILED, 1)
    assert run.error == "it took longer than 1 s"
    (told,) = wire.deliveries.texts
    assert "it took longer than 1 s" in told


async def test_what_somebody_asked_for_is_done_all_the_same(scene: Scene, wire: Wire) -> None:
    running = scene.running
    await running.create(
        "x", "every 1h", "fail", max_retries=1, retry_backoff=timedelta(seconds=3600)
    )
    await running.catalog.pause("default", "x")
    await running.catalog.run_now("default", "x", "run_asked")
    await scene.attempted("x", 2)
    await running.catalog.pause("default", "x")
    (run,) = await running.claimed("x")
    assert (run.id, run.state) == ("run_asked", RunState.CLAIMED)
