"""The scheduler's tables: what migrations make of a database, and how it is searched."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import event

from scheduler_service.jobs import Job, JobSpec, JobState, RunState
from scheduler_service.schedule.misfires import DueAction
from scheduler_service.schedule.schedule import Interval
from scheduler_service.storage import claims, jobs, migrations, runs, schema
from scheduler_service.storage.claims import ClaimedJobs, Holder, run_leases
from services.database import Database
from services.database.leases import new_owner
from services.database.migrations import prepare

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOLDER = Holder(new_owner("me"), run_leases(60.0))

# Steps of a plan that read no table.
_WITHOUT_ROWS = ("SCALAR SUBQUERY", "TEMP B-TREE", "CONSTANT ROW")


def job_of(number: int, due: datetime | None = NOON) -> Job:
    return Job(
        id=f"job{number}",
        profile="default",
        spec=JobSpec("", "", "every 1m", "UTC"),
        schedule=Interval(timedelta(minutes=1), NOON),
        state=JobState.SCHEDULED,
        next_run_at=due,
        created_at=NOON,
    )


async def test_what_is_due_is_found_by_index(sqlite_url: str) -> None:
    def plans(connection: sa.Connection) -> dict[str, list[str]]:
        sent: list[tuple[str, Any]] = []

        def note(*call: Any) -> None:
            sent.append((call[2], call[3]))

        event.listen(connection, "before_cursor_execute", note)
        claims.look(connection)
        claims.due_jobs(connection, NOON, 500)
        claims.free_abandoned(connection, 500)
        claims.take_up(connection, HOLDER, 500)
        return {
            statement: [
                row[3]
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            ]
            for statement, values in sent.copy()
        }

    async with Database(sqlite_url, "scheduler") as database:
        await prepare(database, migrations)
        found = await database.write(plans)
    assert len(found) == 5
    for statement, steps in found.items():
        for step in steps:
            indexed = "USING INDEX" in step or "USING COVERING INDEX" in step
            assert indexed or any(map(step.count, _WITHOUT_ROWS)), (statement, steps)
            assert "run_open" not in step or step.startswith("SEARCH"), (statement, steps)


async def test_only_the_latest_runs_of_a_job_are_kept(prepared: Database) -> None:
    def fill(connection: sa.Connection) -> list[datetime]:
        jobs.insert_job(connection, job_of(1), "")
        for minute in range(runs.KEPT_RUNS_PER_JOB + 10):
            now = NOON + timedelta(minutes=minute)
            firing = DueAction(now, now + timedelta(minutes=1), missed=False)
            due = job_of(1, now)
            (claim,) = claims.claim(connection, HOLDER, [(due, firing)], now, 9).runs
            runs.close_run(connection, HOLDER.leases, claim, runs.Ending("", "", False), now)
        return [each.scheduled_for for each in runs.list_runs(connection, "job1", 1000)]

    kept = await prepared.write(fill)
    latest = NOON + timedelta(minutes=runs.KEPT_RUNS_PER_JOB + 9)
    assert kept == [latest - timedelta(minutes=n) for n in range(runs.KEPT_RUNS_PER_JOB)]


async def test_a_job_that_was_changed_while_it_was_looked_at_is_not_claimed(
    prepared: Database,
) -> None:
    firing = DueAction(NOON, NOON + timedelta(minutes=1), missed=False)
    await prepared.write(lambda connection: jobs.insert_job(connection, job_of(1), ""))
    (due,) = await prepared.read(partial(claims.due_jobs, now=NOON, limit=9))
    await prepared.write(partial(jobs.delete_job, profile="default", job_id="job1", now=NOON))
    claimed = await prepared.write(
        partial(claims.claim, holder=HOLDER, firings=[(due, firing)], now=NOON, room=9)
    )
    assert claimed == ClaimedJobs((), (), 0, ())


async def test_a_due_time_has_one_run_even_if_its_job_is_set_back(prepared: Database) -> None:
    firing = DueAction(NOON, NOON + timedelta(minutes=1), missed=False)
    set_back = sa.update(schema.job).values(next_run_at=NOON)

    def claim_and_end(connection: sa.Connection) -> ClaimedJobs:
        claimed = claims.claim(connection, HOLDER, [(job_of(1), firing)], NOON, 9)
        for claim in claimed.runs:
            runs.close_run(connection, HOLDER.leases, claim, runs.Ending("", "", False), NOON)
        connection.execute(set_back)
        return claimed

    await prepared.write(lambda connection: jobs.insert_job(connection, job_of(1), ""))
    claimed = [await prepared.write(claim_and_end) for _ in range(2)]
    assert [each.due for each in claimed] == [(NOON,), ()]
    assert [each.job_count for each in claimed] == [1, 1], "the job goes on all the same"
    (only,) = await prepared.read(partial(runs.list_runs, job_id="job1", limit=9))
    assert only.scheduled_for == NOON


async def test_only_what_nobody_holds_is_taken_over(prepared: Database) -> None:
    firing = DueAction(NOON, NOON + timedelta(minutes=1), missed=False)

    def claim(connection: sa.Connection, number: int, lease_s: float) -> str:
        each = job_of(number)
        jobs.insert_job(connection, each, "")
        holder = Holder(new_owner("other"), run_leases(lease_s))
        return claims.claim(connection, holder, [(each, firing)], NOON, 9).runs[0].run_id

    await prepared.write(partial(claim, number=1, lease_s=60.0))
    ended = await prepared.write(partial(claim, number=2, lease_s=-1.0))
    take_up = partial(claims.take_up, holder=HOLDER, limit=9)
    assert await prepared.write(take_up) == ()
    assert await prepared.write(partial(claims.free_abandoned, limit=9)) == 1
    assert [taken.run_id for taken in await prepared.write(take_up)] == [ended]
    assert await prepared.write(take_up) == ()


async def test_who_takes_a_run_over_goes_on_in_its_trace(prepared: Database) -> None:
    firing = DueAction(NOON, NOON + timedelta(minutes=1), missed=False)
    trace = f"00-{'4' * 32}-{'2' * 16}-01"

    def leave_begun(connection: sa.Connection) -> None:
        each = job_of(1)
        jobs.insert_job(connection, each, "")
        (claim,) = claims.claim(connection, HOLDER, [(each, firing)], NOON, 9).runs
        assert claim.traceparent == ""
        begun = replace(claim, state=RunState.RUNNING, traceparent=trace)
        runs.save(connection, HOLDER.leases, begun)
        claims.let_go(connection, HOLDER, [claim.lease])

    await prepared.write(leave_begun)
    (taken,) = await prepared.write(partial(claims.take_up, holder=HOLDER, limit=9))
    assert (taken.state, taken.traceparent) == (RunState.RUNNING, trace)


async def test_a_batch_is_claimed_whole_and_by_one(prepared: Database) -> None:
    """Two planners that saw the same due jobs share them out, or one takes them all."""
    count = 200
    firing = DueAction(NOON, NOON + timedelta(minutes=1), missed=False)

    def fill(connection: sa.Connection) -> None:
        for number in range(count):
            jobs.insert_job(connection, job_of(number), "")

    await prepared.write(fill)
    due = await prepared.read(partial(claims.due_jobs, now=NOON, limit=count))
    assert len(due) == count
    firings = [(each, firing) for each in due]
    claimed = await asyncio.gather(
        *(
            prepared.write(
                partial(
                    claims.claim,
                    holder=Holder(new_owner(owner), run_leases(60.0)),
                    firings=firings,
                    now=NOON,
                    room=count,
                )
            )
            for owner in ("a", "b", "c")
        )
    )
    ids = [claim.job.id for each in claimed for claim in each.runs]
    assert sorted(ids) == sorted(f"job{number}" for number in range(count))
    assert await prepared.read(partial(claims.due_jobs, now=NOON, limit=count)) == []
