"""Schedulers as processes that are killed with SIGKILL: every due time has one run, in time."""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from scheduler_service.catalog import JobCatalog, JobRequest
from scheduler_service.jobs import Origin, RunState
from scheduler_service.storage import migrations
from scheduler_service.storage.schema import metadata, run
from services import certs
from services.auth import Identity
from services.clock import SystemClock
from services.database import Database
from services.migrations import prepare
from tests.integration.scheduler_parts import Wire, fake_services

HERMES = Path(sys.executable).with_name("hermes")
JOBS, SECONDS, KILL_EVERY_S = 400, 8, 2.0


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
    }


async def test_three_schedulers_of_which_one_is_killed_all_the_time(
    postgres_url: str, tmp_path: Path, pki: Path, wire: Wire
) -> None:
    """One database, three processes, a kill -9 every two seconds: none missing, none twice."""
    chance = random.Random(7)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(postgres_url, "scheduler"))
        await prepare(database, metadata, migrations)

        async def start(number: int) -> SchedulerProcess:
            home = tmp_path / f"home{number}"
            process = SchedulerProcess(environ(home, pki, wire, postgres_url))
            return await stack.enter_async_context(process)

        living = list(await asyncio.gather(*map(start, range(3))))
        first_due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
        due = await _create_jobs(database, first_due)
        for number in range(3, 3 + round((SECONDS + 2) / KILL_EVERY_S)):
            await asyncio.sleep(KILL_EVERY_S)
            await living.pop(chance.randrange(3)).kill()
            living.append(await start(number))
        async with asyncio.timeout(20):
            await wire.deliveries.delivered(JOBS)
            while len(found := await _finished(database)) < JOBS:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.1)

    assert {job_id: scheduled_for for job_id, scheduled_for, _, _ in found} == due
    assert len(found) == JOBS
    assert {state for _, _, state, _ in found} == {RunState.SUCCEEDED}
    assert sorted(wire.deliveries.texts) == sorted(due)
    assert wire.deliveries.conflicts == []
    assert len(wire.turns.requests) == JOBS
    lateness = sorted((claimed - at).total_seconds() for _, at, _, claimed in found)
    print(f"lateness p50 {lateness[JOBS // 2]:.3f} s, max {lateness[-1]:.3f} s")
    assert lateness[int(JOBS * 0.99)] <= 2
    assert lateness[-1] <= 10


async def test_a_killed_scheduler_goes_on_at_once_when_it_is_started_again(
    sqlite_url: str, tmp_path: Path, pki: Path, wire: Wire
) -> None:
    variables = environ(tmp_path / "home", pki, wire, sqlite_url)
    async with Database(sqlite_url, "scheduler") as database:
        await prepare(database, metadata, migrations)
        await _create(database, "x", "1s", "wait done")
    process = SchedulerProcess(variables)
    async with process:
        (turn_id,) = await wire.turns.started(1)
        await wire.turns.watched(turn_id, 1)
    wire.turns.release(turn_id)
    async with SchedulerProcess(variables), asyncio.timeout(3):
        assert await wire.deliveries.delivered(1) == ["done"]
    assert wire.turns.start_calls[turn_id] == 1


async def _create_jobs(database: Database, first_due: datetime) -> dict[str, datetime]:
    due = {f"job{n}": first_due + timedelta(seconds=n % SECONDS) for n in range(JOBS)}
    await asyncio.gather(
        *(_create(database, id_, at.isoformat(), f"answer {id_}") for id_, at in due.items())
    )
    return due


async def _create(database: Database, job_id: str, schedule: str, prompt: str) -> None:
    chat = Origin("telegram", "42")
    request = JobRequest(job_id, "default", job_id, prompt, schedule, "UTC", chat)
    await JobCatalog(database, SystemClock(), "UTC").create(request)


async def _finished(database: Database) -> list[tuple[str, datetime, str, datetime]]:
    query = run.select().where(run.c.finished_at.is_not(None))
    rows = await database.read(lambda connection: connection.execute(query).all())
    return [(row.job_id, row.scheduled_for, row.state, row.claimed_at) for row in rows]
