"""Curations of several schedulers: of one database, and of two that serve the same home."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest_asyncio
import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.clients import CurationClient
from scheduler_service.curation_lock import CurationLocks
from scheduler_service.curator_records import (
    Curation,
    CuratorRun,
    Order,
    Report,
    RunState,
    Settings,
)
from scheduler_service.storage import curator_runs
from scheduler_service.storage.curator_schema import curator_run
from scheduler_service.storage.schema import metadata
from scheduler_service.transitions import SkillUse
from services.channels import Channels
from services.database import Database
from services.errors import StaleEpoch
from services.home import HomePaths
from services.leases import Lease, new_owner
from tests.curation import fill, tree
from tests.fakes.model import fake_model
from tests.integration.gateway_parts import hermes
from tests.integration.test_curator import HISTORY, script
from tests.integration.test_curator_schedule import (
    NO_LOCKS,
    Libraries,
    curation,
    ended,
    runs,
    schedulers,
)


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


async def waiting_for(database: Database) -> str:
    """What the run of the usual profile, which is open, waits for."""
    async with asyncio.timeout(20):
        while not (found := await runs(database)) or not found[0].error:  # noqa: ASYNC110 - rows change without an event
            await asyncio.sleep(0.02)
    assert found[0].state is RunState.OPEN
    return found[0].error


@pytest_asyncio.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """The databases of two Hermes that serve the same home."""
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("inside", "alone")]
    async with Database(urls[0], "scheduler") as inside, Database(urls[1], "scheduler") as alone:
        yield inside, alone


async def test_two_hermes_do_not_curate_the_same_home_together(
    two: tuple[Database, Database], tmp_path: Path
) -> None:
    home = HomePaths(tmp_path, tmp_path)
    await asyncio.to_thread((tmp_path / "profiles" / "w2").mkdir, parents=True)
    inside = Libraries(curation("w2"), locks=CurationLocks(home))
    # By itself it is the home, whose profile is the usual one.
    alone = Libraries(curation(), locks=CurationLocks(home.profile("w2"), wait_s=0.1))
    inside.may_answer.clear()
    async with schedulers(two[0], inside):
        await inside.is_asked.wait()
        async with schedulers(two[1], alone):
            assert "another Hermes is at work on the skills" in await waiting_for(two[1])
            # It is the same home.
            later = datetime.now(UTC) + timedelta(seconds=1)
            alone.known["default"] = replace(alone.known["default"], last_run_at=later)
            inside.may_answer.set()
            (made,) = await ended(two[0], profile="w2")
            assert not made.error
            (left,) = await ended(two[1])
            assert "has looked after these skills" in left.error
    assert not alone.asked
    async with alone.held("default"):
        pass  # whoever has ended holds it no more


async def test_what_another_hermes_has_done_meanwhile_is_not_done_again(
    two: tuple[Database, Database],
) -> None:
    database, _ = two
    await database.migrate(metadata.create_all)
    now = datetime.now(UTC)
    begin = partial(
        curator_runs.insert_run, run_id="one", profile="default", now=now, dry_run=False
    )
    await database.write(begin)
    libraries = Libraries(curation(last_run_at=now + timedelta(seconds=1)))
    async with schedulers(database, libraries):
        (run,) = await ended(database)
        assert "has looked after these skills" in run.error
    assert (libraries.asked.total(), libraries.orders) == (0, [])


HOLDER = """
import asyncio, pathlib, sys
from scheduler_service.clients import CurationClient
from scheduler_service.curation_lock import CurationLocks
from services.home import HomePaths

async def hold():
    home = pathlib.Path(sys.argv[1])
    async with CurationLocks(HomePaths(home, home)).held("default"):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(hold())
"""


async def test_who_takes_over_from_a_scheduler_that_stands_still_waits_for_it_alone(
    database: Database, tmp_path: Path
) -> None:
    home = HomePaths(tmp_path, tmp_path)
    command = (sys.executable, "-c", HOLDER, str(tmp_path))
    stopped = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert stopped.stdout is not None
        assert await stopped.stdout.readline() == b"held\n"
        stopped.send_signal(signal.SIGSTOP)
        libraries = Libraries(curation(), locks=CurationLocks(home, wait_s=0.1))
        async with schedulers(database, libraries):
            assert "another Hermes is at work on the skills" in await waiting_for(database)
            assert libraries.orders == []
            stopped.kill()
            (run,) = await ended(database)
        assert (run.state, run.error, len(libraries.orders)) == (RunState.SUCCEEDED, "", 1)
    finally:
        if stopped.returncode is None:
            stopped.kill()
        await stopped.wait()


class TakenOver(Libraries):
    """Another scheduler has the run by the time that this one knows what to do."""

    def __init__(self, take_over: Callable[[], Awaitable[None]]) -> None:
        super().__init__(curation())
        self._take_over = take_over
        self.held = self._held
        self.let_go = asyncio.Event()

    @asynccontextmanager
    async def _held(self, profile: str) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self.let_go.set()

    async def skills(self, profile: str) -> Sequence[SkillUse]:
        await self._take_over()
        return await super().skills(profile)


async def test_who_was_taken_over_changes_nothing_more(database: Database) -> None:
    await database.migrate(metadata.create_all)
    # So long that nobody is told of it by its end.
    leases, now = curator_runs.run_leases(30), datetime.now(UTC)

    def begin(connection: sa.Connection) -> None:
        assert curator_runs.insert_run(connection, "one", "default", now, dry_run=False)
        ((lease, _),) = curator_runs.take(connection, leases, new_owner("first"), 9)
        curator_runs.keep_plan(connection, leases, lease, "a plan", "")
        leases.release(connection, lease)

    async def take_over() -> None:
        def take(connection: sa.Connection) -> None:
            ended = sa.update(curator_run).values(lease_until=now - timedelta(days=1))
            connection.execute(ended)
            assert leases.claim(connection, "one", new_owner("other")) is not None

        await database.write(take)

    await database.write(begin)
    libraries = TakenOver(take_over)
    off = Settings(is_enabled=False, check_s=0.1)
    async with schedulers(database, libraries, settings=off, lease_s=30):
        async with asyncio.timeout(20):
            await libraries.let_go.wait()
        assert libraries.orders == []
        assert [run.state for run in await runs(database)] == [RunState.OPEN]


class Late(CurationClient):
    """Stands still between the last look at its lease and the call."""

    def __init__(self, channels: Channels) -> None:
        super().__init__(channels, NO_LOCKS)
        self.has_looked = asyncio.Event()
        self.may_call = asyncio.Event()
        self.answered: asyncio.Future[Report | StaleEpoch] = asyncio.Future()

    async def apply(self, order: Order) -> Report:
        self.has_looked.set()
        await self.may_call.wait()
        try:
            report = await super().apply(order)
        except StaleEpoch as error:
            self.answered.set_result(error)
            raise
        self.answered.set_result(report)
        return report


async def test_who_is_taken_over_after_its_last_look_changes_nothing(
    database: Database, tmp_path: Path
) -> None:
    root = await asyncio.to_thread(fill, tmp_path)
    before = await asyncio.to_thread(tree, root)
    await database.migrate(metadata.create_all)
    leases, now = curator_runs.run_leases(30), datetime.now(UTC)
    begin = partial(curator_runs.insert_run, run_id="one", profile="default", now=now)
    await database.write(partial(begin, dry_run=False))

    def take_over(connection: sa.Connection) -> tuple[Lease, CuratorRun]:
        connection.execute(sa.update(curator_run).values(lease_until=now - timedelta(days=1)))
        ((lease, run),) = curator_runs.take(connection, leases, new_owner("other"), 9)
        return lease, run

    off = Settings(is_enabled=False, check_s=0.1)
    async with (
        fake_model(script(HISTORY)) as model,
        hermes(tmp_path, model.url, services=("agent",)) as running,
    ):
        late = Late(running.scheduler)
        other = CurationClient(running.scheduler, NO_LOCKS)
        async with schedulers(database, late, settings=off, lease_s=30), asyncio.timeout(20):
            await late.has_looked.wait()
            lease, run = await database.write(take_over)
            report = await other.apply(Order(run, lease.epoch, (), {}, frozenset()))
            assert report.changes
            close = partial(curator_runs.close_run, leases=leases, lease=lease, outcome=report)
            await database.write(partial(close, now=now))
            # What it has changed is not the latest any more, by which a run is known.
            await other.restore("default", "back", report.backup_id)
            late.may_call.set()
            assert isinstance(await late.answered, StaleEpoch)
        assert await asyncio.to_thread(tree, root) == before
        (known,) = await other.curations("default")
        assert known.epoch == lease.epoch
    assert [(run.state, run.report) for run in await runs(database)] == [
        (RunState.SUCCEEDED, report)
    ]


async def test_the_epochs_of_a_profile_grow_over_its_runs_and_over_what_the_library_knows(
    database: Database,
) -> None:
    await database.migrate(metadata.create_all)
    leases, now = curator_runs.run_leases(30), datetime.now(UTC)

    def run(connection: sa.Connection, run_id: str, after_epoch: int) -> int:
        assert curator_runs.insert_run(
            connection, run_id, "default", now, dry_run=False, after_epoch=after_epoch
        )
        ((lease, _),) = curator_runs.take(connection, leases, new_owner("one"), 9)
        leases.release(connection, lease)
        ((lease, _),) = curator_runs.take(connection, leases, new_owner("two"), 9)
        curator_runs.close_run(connection, leases, lease, Report(run_id, now, "done"), now)
        return lease.epoch

    epochs = [
        await database.write(partial(run, run_id=run_id, after_epoch=known))
        for run_id, known in (("a", 0), ("b", 2), ("c", 40), ("d", 0))
    ]
    assert epochs == [2, 4, 42, 44]


async def test_a_run_that_comes_after_another_hermes_fails_and_the_next_one_is_above_it(
    database: Database,
) -> None:
    libraries = Libraries(curation(epoch=7))
    libraries.failure = StaleEpoch("a later run of the curator has changed these skills")
    async with schedulers(database, libraries):
        (run,) = await ended(database)
    assert (run.state, run.error) == (RunState.FAILED, str(libraries.failure))
    await database.write(
        partial(
            curator_runs.insert_run,
            run_id="next",
            profile="default",
            now=datetime.now(UTC),
            dry_run=False,
        )
    )
    libraries.failure = None
    async with schedulers(database, libraries, settings=Settings(is_enabled=False, check_s=0.1)):
        await ended(database, 2)
    assert [order.epoch for order in libraries.orders] == [9]
