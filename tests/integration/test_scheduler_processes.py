"""Schedulers as processes that are killed with SIGKILL: each due time has one run, in the end."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
import sqlalchemy as sa

from scheduler_service.clients import AgentClient
from scheduler_service.jobs import Job, JobSpec, JobState, Origin, RunState
from scheduler_service.schedule.schedule import Once
from scheduler_service.servicer.catalog import JobCatalog
from scheduler_service.storage import jobs, migrations
from scheduler_service.storage.claims import CHANNEL
from scheduler_service.storage.schema import run
from services.clock import SystemClock
from services.database import Database
from services.database.migrations import prepare
from services.redaction.redactor import Redactor
from services.rpc import certs
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from tests.integration.scheduler_parts import Wire, fake_services
from tests.integration.test_scheduler_deleted import nothing_to_stop, to_stop

HERMES = Path(sys.executable).with_name("hermes")
JOBS = 60


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """A folder with certificates for the fakes and the schedulers."""
    folder = tmp_path / "pki"
    now = datetime.now(UTC)
    certs.init(folder, now)
    for identity in (Identity.AGENT, Identity.SCHEDULER):
        certs.issue(folder, identity, ["127.0.0.1"], now)
    return folder


@pytest.fixture
async def wire(pki: Path) -> AsyncIterator[Wire]:
    async with fake_services(certs.files_of(pki, Identity.AGENT)) as services:
        yield services


class SchedulerProcess:
    """`hermes serve scheduler`, which a test can kill."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            HERMES,
            *("serve", "scheduler", "--listen", "127.0.0.1:0", "--metrics-port", "0"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
        )
        assert self._process.stderr is not None
        said: list[str] = []
        async for line in self._process.stderr:
            said.append(line.decode())
            if "ready on" in said[-1]:
                return self
        await self.kill()
        raise AssertionError("".join(said))

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        """Kill the process as a crash does."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.communicate()


def environ(home: Path, pki: Path, wire: Wire, database_url: str) -> dict[str, str]:
    """What a scheduler needs to know."""
    files = certs.files_of(pki, Identity.SCHEDULER)
    return {
        "HERMES_HOME": str(home),
        "HERMES_INSTANCE": home.name,
        "HERMES_DATABASE_URL": database_url,
        "HERMES_AGENT_ADDRESS": wire.address,
        "HERMES_GATEWAY_ADDRESS": wire.address,
        "HERMES_TLS_CA": str(files.ca),
        "HERMES_TLS_CERTIFICATE": str(files.certificate),
        "HERMES_TLS_KEY": str(files.key),
        "HERMES_LOG_LEVEL": "error",
        # Where the tests run from, so that the processes are of the same tree.
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }


@pytest.mark.timeout(120)
async def test_three_schedulers_of_which_two_are_killed_run_each_job_once(
    postgres_url: str, tmp_path: Path, pki: Path, wire: Wire
) -> None:
    """Jobs are due over a second, in which two are killed and another one starts."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(postgres_url, "scheduler"))
        await prepare(database, migrations)

        async def start(number: int) -> SchedulerProcess:
            variables = environ(tmp_path / f"home{number}", pki, wire, postgres_url)
            return await stack.enter_async_context(SchedulerProcess(variables))

        first, second, _ = await asyncio.gather(*map(start, range(3)))
        begins = datetime.now(UTC) + timedelta(seconds=1)
        due = {f"job{n}": begins + timedelta(seconds=n / JOBS) for n in range(JOBS)}

        def insert(connection: sa.Connection) -> None:
            for job_id, at in due.items():
                jobs.insert_job(connection, job_at(job_id, at, f"answer {job_id}"), "")

        await database.write(insert, notify=CHANNEL)
        await wire.turns.started(1)
        await first.kill()
        await wire.deliveries.delivered(JOBS // 3)
        await second.kill()
        await start(3)
        async with asyncio.timeout(30):
            while len(found := await finished(database)) < JOBS:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.1)

    assert {row.job_id: row.scheduled_for for row in found} == due
    assert len(found) == JOBS
    assert {row.state for row in found} == {RunState.SUCCEEDED}
    assert sorted(wire.deliveries.texts) == sorted(due)
    assert wire.deliveries.conflicts == []
    assert len(wire.turns.requests) == JOBS


async def finished(database: Database) -> Sequence[sa.Row[Any]]:
    """The runs that have ended."""
    query = run.select().where(run.c.finished_at.is_not(None))
    return await database.read(lambda connection: connection.execute(query).all())


async def test_a_killed_scheduler_goes_on_at_once_when_it_is_started_again(
    sqlite_url: str, tmp_path: Path, pki: Path, wire: Wire
) -> None:
    variables = environ(tmp_path / "home", pki, wire, sqlite_url)
    async with Database(sqlite_url, "scheduler") as database:
        await prepare(database, migrations)
        job = job_at("x", datetime.now(UTC), "wait done")
        await database.write(lambda connection: jobs.insert_job(connection, job, ""))
    process = SchedulerProcess(variables)
    async with process:
        (turn_id,) = await wire.turns.started(1)
        await wire.turns.watched(turn_id, 1)
    wire.turns.release(turn_id)
    async with SchedulerProcess(variables), asyncio.timeout(3):
        assert await wire.deliveries.delivered(1) == ["done"]
    assert wire.turns.start_calls[turn_id] == 1


async def test_a_turn_that_nobody_has_noted_is_stopped_with_its_job_whoever_is_killed(
    sqlite_url: str, tmp_path: Path, pki: Path, wire: Wire
) -> None:
    """Killed are the one that has started it, before it hears of that, and the one that deletes
    the job, before it stops anything; the next one finds the agent away."""
    variables = environ(tmp_path / "home", pki, wire, sqlite_url)
    async with Database(sqlite_url, "scheduler") as database:
        await prepare(database, migrations)
        job = job_at("x", datetime.now(UTC), "wait done")
        await database.write(partial(jobs.insert_job, new=job, request_digest=""))
    wire.turns.tells_nobody = True
    async with SchedulerProcess(variables):
        (turn_id,) = await wire.turns.started(1)
    async with Database(sqlite_url, "scheduler") as database:
        (row,) = await database.read(lambda connection: connection.execute(sa.select(run)).all())
        assert (row.state, row.started_at) == (RunState.CLAIMED, None), "where it was killed"
        for _ in range(2):
            await deleted(database, wire, "x")
        assert await to_stop(database) == [turn_id]
    assert wire.turns.stopped == []
    wire.turns.unreachable = True
    async with SchedulerProcess(variables):
        async with asyncio.timeout(20):
            while not wire.turns.refused:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        wire.turns.unreachable = False
        async with asyncio.timeout(20):
            while not wire.turns.stopped:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
    async with Database(sqlite_url, "scheduler") as database:
        await nothing_to_stop(database)
    assert wire.turns.stopped == [turn_id]
    assert wire.turns.start_calls[turn_id] == 1


async def deleted(database: Database, wire: Wire, job_id: str) -> None:
    """Delete a job as a scheduler does that dies once that is stored."""
    async with Channels(Identity.SCHEDULER, {"agent": wire.address}, token="a token") as channels:
        catalog = JobCatalog(
            database, SystemClock(), lambda _: "UTC", AgentClient(channels), Redactor()
        )
        await catalog.delete("default", job_id)


def job_at(job_id: str, at: datetime, prompt: str) -> Job:
    return Job(
        id=job_id,
        profile="default",
        spec=JobSpec(job_id, prompt, at.isoformat(), "UTC", Origin("telegram", "42")),
        schedule=Once(at),
        state=JobState.SCHEDULED,
        next_run_at=at,
        created_at=at,
    )
