"""What is due although runs are open, and what a scheduler holds of very much that is due."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from scheduler_service.jobs import Claim, Job, JobSpec
from scheduler_service.options import JobOptions, Overlap
from scheduler_service.schedule.misfires import DueAction
from scheduler_service.storage import claims, jobs, runs
from scheduler_service.storage.claims import ClaimedJobs, Holder, run_leases
from services.database import Database
from services.database.leases import new_owner
from services.errors import FailedPrecondition
from tests.integration.scheduler_parts import SetClock, fake_services, scheduler
from tests.integration.test_scheduler_storage import NOON, job_of

HOLDER = Holder(new_owner("me"), run_leases(60.0))
GOOD = runs.Ending("", "", is_silent=False)
MINUTE = timedelta(minutes=1)


def overlapping(overlap: Overlap) -> Job:
    return replace(job_of(1), spec=JobSpec(options=JobOptions(overlap_policy=overlap)))


async def store(database: Database, job: Job) -> None:
    await database.write(lambda connection: jobs.insert_job(connection, job, ""))


async def claim(database: Database, due: Sequence[Job], at: datetime, room: int = 9) -> ClaimedJobs:
    """Claim jobs as a planner does that has seen them due."""
    firings = [(job, DueAction(at, at + MINUTE, missed=False)) for job in due]
    return await database.write(
        partial(claims.claim, holder=HOLDER, firings=firings, now=at, room=room)
    )


async def due(database: Database, at: datetime) -> list[Job]:
    return await database.read(partial(claims.due_jobs, now=at, limit=9))


async def close(database: Database, run: Claim) -> None:
    await database.write(
        partial(runs.close_run, leases=HOLDER.leases, claim=run, ending=GOOD, now=NOON)
    )


async def test_a_job_is_due_again_when_its_last_open_run_has_ended(prepared: Database) -> None:
    beside = overlapping(Overlap.ALLOW)
    await store(prepared, beside)
    (first,) = (await claim(prepared, [beside], NOON)).runs
    (again,) = await due(prepared, NOON + MINUTE)
    (second,) = (await claim(prepared, [again], NOON + MINUTE)).runs
    later = NOON + 2 * MINUTE
    assert len(await due(prepared, later)) == 1
    alone = replace(beside, spec=JobSpec(), updated_at=NOON)
    change = partial(jobs.update_job, changed=alone, before=beside, is_rescheduled=False)
    assert await prepared.write(change)
    assert await due(prepared, later) == []
    await close(prepared, second)
    assert await due(prepared, later) == []
    assert (await prepared.read(claims.look)).next_due is None
    await close(prepared, first)
    (free,) = await due(prepared, later)
    (third,) = (await claim(prepared, [free], later)).runs
    assert await due(prepared, later + MINUTE) == []
    back = replace(free, spec=beside.spec, updated_at=NOON + MINUTE)
    change = partial(jobs.update_job, changed=back, before=free, is_rescheduled=False)
    assert await prepared.write(change)
    assert len(await due(prepared, later + MINUTE)) == 1
    await close(prepared, third)


async def test_a_run_that_was_asked_for_meanwhile_is_not_overlapped(prepared: Database) -> None:
    """It came after a planner had read what is due, and before it claimed that."""
    await store(prepared, job_of(1))
    (seen,) = await due(prepared, NOON)
    ask = partial(runs.request_run, of_job=seen, run_id="run_asked", now=NOON - MINUTE / 2)
    await prepared.write(ask)
    assert await claim(prepared, [seen], NOON) == ClaimedJobs((), (), 0, ())
    (asked,) = await prepared.write(partial(claims.take_up, holder=HOLDER, limit=9))
    await close(prepared, asked)
    (seen,) = await due(prepared, NOON)
    assert len((await claim(prepared, [seen], NOON)).runs) == 1
    with pytest.raises(FailedPrecondition):
        await prepared.write(partial(runs.request_run, of_job=seen, run_id="run_2", now=NOON))


async def test_what_there_is_no_room_for_is_claimed_in_time_and_held_by_nobody(
    prepared: Database,
) -> None:
    several = [job_of(number, NOON + timedelta(seconds=number)) for number in range(5)]
    for job in several:
        await store(prepared, job)
    at = NOON + timedelta(seconds=9)
    firings = [(job, DueAction(job.next_run_at, None, missed=False)) for job in several]
    claimed = await prepared.write(
        partial(claims.claim, holder=HOLDER, firings=firings, now=at, room=2)
    )
    assert [run.job.id for run in claimed.runs] == ["job0", "job1"]
    assert set(claimed.due) == {job.next_run_at for job in several}
    assert (await prepared.read(claims.look)).is_any_unheld
    other = Holder(new_owner("other"), run_leases(60.0))
    taken = await prepared.write(partial(claims.take_up, holder=other, limit=2))
    assert [run.job.id for run in taken] == ["job2", "job3"]
    assert {run.lease.owner for run in taken} == {str(other.owner)}
    (last,) = await prepared.write(partial(claims.take_up, holder=HOLDER, limit=9))
    assert (last.job.id, last.scheduled_for, last.claimed_at) == (
        "job4",
        several[4].next_run_at,
        at,
    )
    assert not (await prepared.read(claims.look)).is_any_unheld


async def test_a_scheduler_holds_no_more_runs_than_it_can_soon_begin(prepared: Database) -> None:
    count, slots = 40, 3
    async with fake_services() as wire:
        clock = SetClock(NOON)
        async with scheduler(prepared, wire, clock=clock, slots=slots) as running:
            for number in range(count):
                await running.create(f"x{number}", "1m", f"wait {number}")
            clock.step(60)
            await running.look()
            await wire.turns.started(slots)
            assert len(wire.turns.requests) == slots
            for number in range(count):
                await running.claimed(f"x{number}")
            seen = {len(running.planner.leases)}
            for turns in range(1, count + 1):
                started = await wire.turns.started(min(count, turns - 1 + slots))
                wire.turns.release(started[turns - 1])
                seen.add(len(running.planner.leases))
            await wire.deliveries.delivered(count)
    assert max(seen) <= 3 * slots, "with those that are being delivered"
    assert len(wire.turns.requests) == count
