"""What happens at the same moment: runs that are replaced, cancelled, changed or asked for."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import TypeVar

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from scheduler_service.clients import AgentClient, Ask, GatewayClient
from scheduler_service.jobs import Claim, Job, JobSpec
from scheduler_service.options import JobOptions, Overlap
from scheduler_service.runs.metrics import SchedulerMetrics
from scheduler_service.runs.runner import Runner, RunServices
from scheduler_service.storage import claims, jobs, migrations, runs
from scheduler_service.storage.claims import ClaimedJobs, Holder, run_leases
from scheduler_service.storage.schema import metadata
from services.clock import SystemClock
from services.database import Database
from services.database.leases import Fenced, new_owner
from services.database.migrations import prepare
from services.errors import NotFound, Unavailable
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.telemetry.metrics import Meter
from tests.integration.scheduler_parts import CHAT, SetClock, Wire, scheduler
from tests.integration.test_scheduler_storage import NOON, job_of
from tests.integration.test_scheduler_waiting import HOLDER, MINUTE, claim, due, overlapping, store

OTHER = Holder(new_owner("other"), run_leases(60.0))
JOB, RUN = metadata.tables["job"], metadata.tables["run"]

_T = TypeVar("_T")


async def one_claim(database: Database, job: Job) -> Claim:
    await store(database, job)
    (claimed,) = (await claim(database, [job], NOON)).runs
    return claimed


class Scene:
    """A runner, and a run that something happens to as its turn starts."""

    def __init__(self, database: Database, channels: Channels, claimed: Claim) -> None:
        self.database = database
        self.claimed = claimed
        self.agent = Disturbed(channels)
        self._channels = channels

    async def run(self) -> None:
        metrics = SchedulerMetrics.create(Meter(CollectorRegistry()))
        runner = Runner(
            self.database,
            RunServices(self.agent, GatewayClient(self._channels)),
            leases=HOLDER.leases,
            clock=SystemClock(),
            slots=1,
            metrics=metrics,
        )
        await runner.run(self.claimed)

    async def cancel(self) -> None:
        now = NOON + MINUTE
        await self.database.write(partial(runs.cancel_open, job_ids=["job1"], now=now))

    async def take_over(self) -> None:
        ended = sa.update(RUN).values(lease_until=NOON)
        await self.database.write(lambda connection: connection.execute(ended))
        await self.database.write(partial(claims.free_abandoned, limit=9))
        assert await self.database.write(partial(claims.take_up, holder=OTHER, limit=9))


class Disturbed(AgentClient):
    """An agent that is slow to tell that a turn has started, or could not be."""

    def __init__(self, channels: Channels) -> None:
        super().__init__(channels)
        self.started = asyncio.Event()
        self.refused = asyncio.Event()
        self.may_tell = asyncio.Event()

    async def start(self, claim: Claim, ask: Ask) -> None:
        try:
            await super().start(claim, ask)
        except Unavailable:
            self.refused.set()
            await self.may_tell.wait()
            raise
        self.started.set()
        await self.may_tell.wait()


@pytest.fixture
async def scene(prepared: Database, wire: Wire) -> AsyncIterator[Scene]:
    addresses = {"agent": wire.address, "gateway": wire.address}
    claimed = await one_claim(prepared, replace(job_of(1), spec=JobSpec(prompt="wait done")))
    async with Channels(Identity.SCHEDULER, addresses, token="a token") as channels:
        yield Scene(prepared, channels, claimed)


async def test_the_turn_of_a_cancelled_run_is_not_started(scene: Scene, wire: Wire) -> None:
    await scene.cancel()
    with pytest.raises(Fenced):
        await scene.run()
    assert wire.turns.requests == {}


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["taken over", "cancelled"])
async def test_a_turn_that_could_not_start_is_not_tried_again_for_a_run_that_is_lost(
    scene: Scene, wire: Wire, is_cancelled: bool
) -> None:
    wire.turns.unreachable = True
    working = asyncio.create_task(scene.run())
    await scene.agent.refused.wait()
    await (scene.cancel() if is_cancelled else scene.take_over())
    wire.turns.unreachable = False
    scene.agent.may_tell.set()
    with pytest.raises(Fenced):
        await working
    assert wire.turns.requests == {}


@pytest.mark.parametrize("is_given_up", [False, True], ids=["fenced", "lease lost"])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["taken over", "cancelled"])
async def test_a_turn_that_has_just_started_is_stopped_with_its_run_and_not_with_its_owner(
    scene: Scene, wire: Wire, is_given_up: bool, is_cancelled: bool
) -> None:
    working = asyncio.create_task(scene.run())
    await scene.agent.started.wait()
    await (scene.cancel() if is_cancelled else scene.take_over())
    if is_given_up:
        working.cancel()
    else:
        scene.agent.may_tell.set()
    (outcome,) = await asyncio.gather(working, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError if is_given_up else Fenced)
    assert wire.turns.stopped == ([scene.claimed.run_id] if is_cancelled else [])


@pytest.mark.parametrize("by_now", [Overlap.FORBID, Overlap.REPLACE])
async def test_a_job_whose_options_changed_since_it_was_seen_is_looked_at_again(
    prepared: Database, by_now: Overlap
) -> None:
    """It was seen as one that may overlap, when it was made one that may not, or replaces."""
    beside = overlapping(Overlap.ALLOW)
    await one_claim(prepared, beside)
    (seen,) = await due(prepared, NOON + MINUTE)
    alone = replace(overlapping(by_now), updated_at=NOON)
    change = partial(jobs.update_job, changed=alone, before=seen, is_rescheduled=False)
    assert await prepared.write(change)
    assert await claim(prepared, [seen], NOON + MINUTE) == ClaimedJobs((), (), 0, ())


async def test_an_edit_of_how_often_a_job_runs_counts_the_run_that_came_between(
    prepared: Database,
) -> None:
    await store(prepared, job_of(1))
    (seen,) = await due(prepared, NOON)
    await claim(prepared, [seen], NOON)
    more = JobSpec(options=JobOptions(max_runs=5))
    longer = replace(seen, spec=more, updated_at=NOON)
    change = partial(jobs.update_job, changed=longer, before=seen, is_rescheduled=True)
    assert not await prepared.write(change)
    stored = await prepared.read(partial(jobs.find_job, job_id="job1"))
    assert stored is not None
    assert (stored.job.run_count, stored.job.next_run_at) == (1, NOON + MINUTE)


async def test_what_is_asked_for_while_its_job_is_being_deleted_is_not_run(
    postgres_url: str, wire: Wire
) -> None:
    async with Database(postgres_url, "scheduler") as database:
        await prepare(database, migrations)
        clock = SetClock(NOON)
        async with scheduler(database, wire, clock=clock) as running:
            await running.create("x", "every 1h")

            def delete(connection: sa.Connection) -> None:
                jobs.delete_job(connection, "default", "x", NOON)
                runs.cancel_unbegun(connection, "x", NOON)
                connection.execute(sa.select(sa.func.pg_sleep(0.5)))

            deleting = asyncio.create_task(database.write(delete))
            await asyncio.sleep(0.2)
            with pytest.raises(NotFound):
                await running.catalog.run_now("default", "x", "run_asked")
            await deleting
            assert await running.catalog.runs("default", "x", 9) == []


async def test_what_was_due_first_has_the_room_first(prepared: Database, wire: Wire) -> None:
    late, asked = NOON + MINUTE, JobSpec(prompt="wait")
    for number in range(2):
        await store(prepared, replace(job_of(number), spec=asked))
        await store(prepared, replace(job_of(number + 2, late), spec=asked))
    older = await due(prepared, NOON)
    await claim(prepared, older, NOON, room=0)
    async with scheduler(prepared, wire, clock=SetClock(late), slots=1) as running:
        for number in range(4):
            await running.claimed(f"job{number}")
        held = {lease.id for lease in running.planner.leases}
        first = {run.id for job in ("job0", "job1") for run in await running.claimed(job)}
        assert held & first == first
        assert len(held) == 2


async def test_a_change_that_is_asked_for_again_counts_from_when_it_was_asked_for(
    prepared: Database, wire: Wire
) -> None:
    clock = SetClock(NOON)
    request = JobSpec("x", "say it", "in 30 minutes", "UTC", CHAT)
    async with scheduler(prepared, wire, clock=clock) as running:
        await running.create("x", "every 1h")

        async def change(update_id: str) -> Job:
            update = running.catalog.update
            return await update("default", "x", lambda _: request, anew=True, update_id=update_id)

        assert (await change("one")).next_run_at == NOON + timedelta(minutes=30)
        clock.step(600)
        assert (await change("one")).next_run_at == NOON + timedelta(minutes=30)
        assert (await change("two")).next_run_at == NOON + timedelta(minutes=40)
