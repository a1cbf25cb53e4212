"""Many jobs that are due within a minute, and schedulers of which one is killed all the time."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from time import monotonic, perf_counter

import sqlalchemy as sa
from msgspec import Struct, json

from scheduler_service.jobs import Job, JobSpec, JobState
from scheduler_service.schedule.schedule import Once
from scheduler_service.storage import jobs, migrations
from scheduler_service.storage.claims import CHANNEL
from scheduler_service.storage.schema import job
from services.database import Database
from services.database.migrations import prepare
from tests.bench.figures import BenchError, Plan, Reading
from tests.bench.scheduler.ledger import Ledger, Made
from tests.bench.scheduler.processes import POSTGRES, Site, instant_model, prompt_of
from tests.e2e.deployment import Server
from tests.support.postgres import postgres_server

SCHEDULERS = 3
FULL = 10_000
"""Jobs of the full size, which are due in a minute."""
FULL_S = 60
_KILL_EVERY_S = 5.0
_KILL_EVERY_S_IN_PART = 2.0
_LEAD = timedelta(seconds=5)
"""Until the first one is due; twice as long at full size."""
_NEVER = datetime(2999, 1, 1, tzinfo=UTC)
_TOGETHER = 500
_LOOK_S = 0.05
_PATIENCE_S = 60.0


_DUE_AT = (
    sa.update(job)
    .where(job.c.id == sa.bindparam("job_id"))
    .values(next_run_at=sa.bindparam("at"), schedule=sa.bindparam("once"))
)


class Outcome(Struct, frozen=True):
    """What was seen."""

    due: Mapping[str, datetime]
    runs: list[Made]
    turns: list[Made]
    succeeded: Counter[str]
    asked: Counter[str]
    kills: int
    orphaned_s: list[float]
    """For how long each killed scheduler's runs were its own after its death, where it had any and
    another had to wait until its leases ended."""
    took_s: float
    """From the first due time until all runs had ended."""


async def killed(plan: Plan) -> list[Reading]:
    """Measure what is missing, twice or late."""
    found = await _outcome(plan)
    count = len(found.due)
    claimed = _lateness(found.due, found.runs)
    started = _lateness(found.due, found.turns)
    wrong = {
        "runs": _wrong(found.due, (run.job_id for run in found.runs)),
        "turns": _wrong(found.due, (turn.job_id for turn in found.turns)),
        "turn ids": _wrong([run.id for run in found.runs], (turn.id for turn in found.turns)),
        "questions to the model": _wrong(found.due, found.asked.elements()),
        "runs that succeeded": _wrong(found.due, found.succeeded.elements()),
    }
    missing = max(lost for lost, _ in wrong.values())
    twice = max(more for _, more in wrong.values())
    seen = ", ".join(f"{what} {lost}/{more}" for what, (lost, more) in wrong.items())
    turns_per_s = count / found.took_s
    return [
        Reading("jobs", count, f"due in {count * FULL_S // FULL} s; {turns_per_s:.0f} turns/s"),
        Reading("missing", missing, f"missing/twice: {seen}"),
        Reading("duplicate", twice, "of these the most"),
        Reading("lateness_p50_s", _share(claimed, 0.5)),
        Reading("lateness_p99_s", _share(claimed, 0.99)),
        Reading("lateness_max_s", round(claimed[-1], 3)),
        Reading("start_lateness_p99_s", _share(started, 0.99), f"p50 {_share(started, 0.5)}"),
        Reading("kills", found.kills, f"of {SCHEDULERS} schedulers"),
        Reading("takeover_max_s", *_takeover(found.orphaned_s)),
    ]


def _takeover(orphaned_s: list[float]) -> tuple[float | None, str]:
    if not orphaned_s:
        return None, "no killed scheduler left runs to one of another name"
    times = f"{len(orphaned_s)} times, median {median(orphaned_s):.2f}"
    return round(max(orphaned_s), 2), times


def _share(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * share))], 3)


def _lateness(due: Mapping[str, datetime], made: list[Made]) -> list[float]:
    late = sorted((each.at - due[each.job_id]).total_seconds() for each in made)
    if not late:
        raise BenchError("no run was made at all")
    return late


def _wrong(expected: Iterable[str], found: Iterable[str]) -> tuple[int, int]:
    """How many of what is expected once are not there, and how many are there too often."""
    counts, once = Counter(found), Counter(iter(expected))
    return (once - counts).total(), (counts - once).total()


async def _outcome(plan: Plan) -> Outcome:
    async with AsyncExitStack() as stack:
        server = stack.enter_context(postgres_server(POSTGRES))
        url = stack.enter_context(server.database())
        model_url, asked = await stack.enter_async_context(instant_model())
        site = Site(plan.folder / "killed", url, model_url)
        await asyncio.to_thread(site.issue)
        database = await stack.enter_async_context(Database(url, "scheduler"))
        await prepare(database, migrations)
        agent = site.agent()
        stack.callback(agent.kill)
        await asyncio.to_thread(_start, agent)
        ledger = Ledger(database)
        await ledger.open()
        killer = _Killer(site, ledger)
        stack.push_async_callback(killer.end_all)
        await killer.start_all()
        count = plan.samples
        seconds = count * FULL_S / FULL
        job_ids = await _store(database, count)
        # Schedules count in whole seconds.
        first = datetime.now(UTC).replace(microsecond=0) + _LEAD * (1 + count / FULL)
        due = {
            job_id: first + timedelta(seconds=int(number * seconds / count))
            for number, job_id in enumerate(job_ids)
        }
        await _let_be_due(database, due)
        await asyncio.sleep((first - datetime.now(UTC)).total_seconds())
        begun = perf_counter()
        await killer.kill_for(seconds, _KILL_EVERY_S if count >= FULL else _KILL_EVERY_S_IN_PART)
        await _until_ended(ledger, count)
        took_s = perf_counter() - begun
        await killer.settle()
        return Outcome(
            due,
            await ledger.runs(),
            await ledger.turns(),
            await ledger.succeeded(),
            Counter(asked),
            killer.kills,
            killer.orphaned_s,
            took_s,
        )


async def _store(database: Database, count: int) -> list[str]:
    """Store jobs that are not due in any of our lives; returns their ids."""
    new = [_job(f"job{number}") for number in range(count)]
    for start in range(0, count, _TOGETHER):
        await database.write(partial(_insert, new[start : start + _TOGETHER]))
    return [each.id for each in new]


async def _let_be_due(database: Database, due: Mapping[str, datetime]) -> None:
    """Have all jobs be due, each at its time."""
    rows = [{"job_id": job_id, "at": at, "once": _once(at)} for job_id, at in due.items()]
    await database.write(lambda connection: connection.execute(_DUE_AT, rows), notify=CHANNEL)
    if datetime.now(UTC) >= min(due.values()):
        raise BenchError("the first jobs were due before all were stored")


def _once(at: datetime) -> str:
    return json.encode(Once(at)).decode()


def _insert(new: list[Job], connection: sa.Connection) -> None:
    for each in new:
        jobs.insert_job(connection, each, "")


def _job(job_id: str) -> Job:
    return Job(
        id=job_id,
        profile="default",
        spec=JobSpec(job_id, prompt_of(job_id), _NEVER.isoformat(), "UTC"),
        schedule=Once(_NEVER),
        state=JobState.SCHEDULED,
        next_run_at=_NEVER,
        created_at=datetime.now(UTC),
    )


async def _until_ended(ledger: Ledger, count: int) -> None:
    """Return when all runs have ended; fails where nothing goes on."""
    ended, since = 0, monotonic()
    while ended < count:
        await asyncio.sleep(_LOOK_S)
        now_ended = await ledger.ended_count()
        if now_ended > ended:
            ended, since = now_ended, monotonic()
        elif monotonic() - since > _PATIENCE_S:
            raise BenchError(f"only {ended} of {count} runs have ended, and no more do")


def _start(service: Server) -> None:
    service.start()
    service.wait_ready()


class _Killer:
    """Keeps schedulers running, and kills one after another."""

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self.kills = 0
        self.orphaned_s: list[float] = []
        self._site = site
        self._ledger = ledger
        self._chance = random.Random(7)
        self._living: list[Server] = []
        self._ready_ones: set[Server] = set()
        self._watches: list[asyncio.Task[None]] = []
        self._starts: list[asyncio.Task[None]] = []

    async def start_all(self) -> None:
        """Start as many as there are to be."""
        await asyncio.gather(*(self._start(f"scheduler{n}") for n in range(SCHEDULERS)))

    async def kill_for(self, seconds: float, every_s: float) -> None:
        """Kill one every so many seconds; what follows it has its name every other time."""
        end = monotonic() + seconds
        while (left_s := end - monotonic()) > 0:
            await asyncio.sleep(min(left_s, every_s))
            victim = self._chance.choice(await self._ready())
            self._living.remove(victim)
            await asyncio.to_thread(victim.kill)
            self.kills += 1
            keeps_name = self.kills % 2 == 0
            if not keeps_name:
                self._watches.append(asyncio.create_task(self._watch(victim.name)))
            named = victim.name if keeps_name else f"scheduler{SCHEDULERS + self.kills}"
            self._starts.append(asyncio.create_task(self._start(named)))

    async def _ready(self) -> list[Server]:
        """All of them, once they have started: a start may take longer than the time between."""
        while not self._ready_ones.issuperset(self._living) or len(self._living) < SCHEDULERS:
            await asyncio.sleep(_LOOK_S)
            for start in self._starts:
                if start.done():
                    start.result()  # raises what went wrong
        return self._living

    async def settle(self) -> None:
        """Return when all that is to be measured of the dead has been."""
        await asyncio.gather(*self._watches, *self._starts)

    async def end_all(self) -> None:
        """Kill those that run."""
        for task in (*self._watches, *self._starts):
            task.cancel()
        for service in self._living:
            await asyncio.to_thread(service.kill)

    async def _start(self, instance: str) -> None:
        service = self._site.scheduler(instance)
        self._living.append(service)
        await asyncio.to_thread(_start, service)
        self._ready_ones.add(service)

    async def _watch(self, instance: str) -> None:
        """Measure how long a dead scheduler's runs stay its own."""
        died_at, had_any = monotonic(), False
        while await self._ledger.held_by(instance):
            had_any = True
            await asyncio.sleep(_LOOK_S)
        if had_any:
            self.orphaned_s.append(monotonic() - died_at)
