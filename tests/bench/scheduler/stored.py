"""Very many jobs: the start of a scheduler that has them, its memory, and what is due next."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import event

from scheduler_service.jobs import Job, JobState, RunState
from scheduler_service.schedule.schedule import Cron, Interval, Schedule
from scheduler_service.storage import claims, jobs, migrations
from scheduler_service.storage.schema import job, metadata, run
from services.database import Database
from services.migrations import prepare
from tests.bench.figures import BenchError, Plan, Reading
from tests.bench.scheduler.processes import POSTGRES, Site
from tests.postgres import postgres_server

_PER_SAMPLE = 10
"""10,000 samples are the full size."""
_SETTLING_S = 3.0
_TOGETHER = 2_000
_LOOKS = 200
_BATCH = 500
_SCHEDULES: tuple[Schedule, ...] = (
    Interval(timedelta(hours=1), datetime(2026, 1, 1, tzinfo=UTC)),
    Cron("0 9 * * mon-fri", "Europe/Berlin"),
)
_EVERY_PAUSED = 4
_LATER = timedelta(hours=1)


class Measured(Struct, frozen=True):
    """What was measured on one kind of database."""

    kind: str
    ready_s: float
    rss_mb: float
    looks_ms: dict[str, list[float]]
    """By how the jobs stood: the time of each look at what is due next."""


async def stored(plan: Plan) -> list[Reading]:
    """Measure on PostgreSQL and SQLite."""
    count = plan.samples * _PER_SAMPLE
    found = [
        await _on_postgresql(plan.folder / "stored-postgresql", count),
        await _on_sqlite(plan.folder / "stored-sqlite", count),
    ]
    slowest = max(_share(taken, 0.99) for each in found for taken in each.looks_ms.values())
    looks = "; ".join(
        f"{each.kind}, {how}: p50 {_share(taken, 0.5):.2f}, p99 {_share(taken, 0.99):.2f}"
        for each in found
        for how, taken in each.looks_ms.items()
    )
    ready = ", ".join(f"{each.kind} {each.ready_s:.2f}" for each in found)
    memory = ", ".join(f"{each.kind} {each.rss_mb:.0f}" for each in found)
    return [
        Reading("load_100k_s", round(max(each.ready_s for each in found), 2), f"{count}: {ready}"),
        Reading("load_100k_rss_mb", round(max(each.rss_mb for each in found), 1), memory),
        Reading("next_due_ms", round(slowest, 3), looks),
    ]


async def _on_postgresql(folder: Path, count: int) -> Measured:
    with postgres_server(POSTGRES) as server, server.database() as url:
        return await _measure("PostgreSQL", Site(folder, url), count)


async def _on_sqlite(folder: Path, count: int) -> Measured:
    return await _measure("SQLite", Site(folder, f"sqlite:///{folder}/scheduler.db"), count)


async def _measure(kind: str, site: Site, count: int) -> Measured:
    await asyncio.to_thread(site.issue)
    looks: dict[str, list[float]] = {}
    async with Database(site.database_url, "scheduler") as database:
        await prepare(database, metadata, migrations)
        await _fill(database, count)
        looks["a quarter paused"] = await _looks(database, "job")
        await _have_half_wait(database, count)
        looks["half waiting"] = await _looks(database, "job", "run")
    scheduler = site.scheduler("stored")
    try:
        await scheduler.start()
        await asyncio.sleep(_SETTLING_S)
        rss_mb = await asyncio.to_thread(_peak_mb, scheduler.pid)
    finally:
        await scheduler.kill()
    return Measured(kind, scheduler.ready_s, rss_mb, looks)


async def _fill(database: Database, count: int) -> None:
    """Store jobs that are due in an hour or later, and some that are paused."""
    now = datetime.now(UTC)
    samples = [_sample(schedule, now) for schedule in _SCHEDULES]

    def store_samples(connection: sa.Connection) -> list[dict[str, object]]:
        for sample in samples:
            jobs.insert_job(connection, sample, "")
        return [dict(row) for row in connection.execute(sa.select(job)).mappings()]

    rows = await database.write(store_samples)
    for start in range(0, count, _TOGETHER):
        numbers = range(start, min(count, start + _TOGETHER))
        more = [_like(rows[number % len(rows)], number, now) for number in numbers]
        await database.write(lambda connection, more=more: connection.execute(sa.insert(job), more))


def _like(row: dict[str, object], number: int, now: datetime) -> dict[str, object]:
    due = now + _LATER + timedelta(seconds=number)
    times = {"paused_at": now} if number % _EVERY_PAUSED == 0 else {"next_run_at": due}
    return {**row, "id": f"job{number}", "next_run_at": None, "paused_at": None, **times}


def _sample(schedule: Schedule, now: datetime) -> Job:
    return Job(
        id=f"sample-{schedule.kind}",
        profile="default",
        name="What is new",
        prompt="Look what is new in the feeds of this week, and say it in five lines. " * 4,
        schedule_text="as it is",
        time_zone="Europe/Berlin",
        schedule=schedule,
        origin=None,
        state=JobState.SCHEDULED,
        next_run_at=now + _LATER,
        created_at=now,
    )


async def _have_half_wait(database: Database, count: int) -> None:
    """Let half of the jobs be due again while a run of them is held by another scheduler."""
    now = datetime.now(UTC)
    common = {"state": RunState.RUNNING, "owner": "other/boot", "epoch": 1, "version": 0}
    common |= {"output": "", "error": "", "claimed_at": now, "lease_until": now + _LATER}
    for start in range(0, count // 2, _TOGETHER):
        numbers = range(start, min(count // 2, start + _TOGETHER))
        rows = [
            {**common, "id": f"run{n}", "job_id": f"job{2 * n}", "scheduled_for": now}
            for n in numbers
        ]
        await database.write(lambda connection, rows=rows: connection.execute(sa.insert(run), rows))
    ran = sa.exists().where(run.c.job_id == job.c.id)
    wait = sa.update(job).where(ran).values(next_run_at=now, paused_at=None, waits=jobs.WAITS)
    await database.write(lambda connection: connection.execute(wait))


async def _looks(database: Database, *filled: str) -> list[float]:
    """Look what is due next, as a planner does; the times in order."""
    if database.dialect == "postgresql":
        # As the server does by itself within a minute.
        await database.write(lambda connection: connection.exec_driver_sql("ANALYZE"))
    await _check_plans(database, filled)
    taken: list[float] = []
    for _ in range(_LOOKS):
        begun = perf_counter()
        outlook = await database.read(claims.look)
        taken.append((perf_counter() - begun) * 1_000)
        if outlook.next_due is None or outlook.is_any_unheld:
            raise BenchError("what is due next was not found")
    return sorted(taken)


async def _check_plans(database: Database, filled: Sequence[str]) -> None:
    """Fail where a planner's statements read a table that holds something from its beginning."""
    explain = "EXPLAIN" if database.dialect == "postgresql" else "EXPLAIN QUERY PLAN"
    now = datetime.now(UTC)

    def plans(connection: sa.Connection) -> list[str]:
        sent: list[tuple[str, Any]] = []

        def note(*call: Any) -> None:
            sent.append((call[2], call[3]))

        event.listen(connection, "before_cursor_execute", note)
        claims.look(connection)
        claims.due_jobs(connection, now, _BATCH)
        event.remove(connection, "before_cursor_execute", note)
        return [
            str(row)
            for statement, values in sent
            for row in connection.exec_driver_sql(f"{explain} {statement}", values)
        ]

    whole = [f"{how} {table} " for table in filled for how in ("Seq Scan on", "SCAN")]
    steps = [step.replace("'", " ") for step in await database.read(plans)]
    bad = [step for step in steps if any(map(step.count, whole)) and "INDEX" not in step]
    if bad:
        raise BenchError(f"a table is read as a whole: {bad}")


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path("/proc", str(pid), "status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
