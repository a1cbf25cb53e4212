"""The jobs of a profile whose home is served by itself, and with the home that it is in."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.config.settings import Settings, load_settings
from services.errors import Reason
from services.home.jobs import DATABASE_ABOVE, MARK, kept_by
from tests.integration.scheduler_parts import Wire
from tests.integration.scheduler_served import refused, request, serving, settings_of
from tests.integration.test_scheduler_import import job, lay_out, listed, take

OWN_DATABASE = "state/scheduler.db"

OLD = "0a1b2c3d4e5f"
HER = "ann"


@pytest.fixture
def above(tmp_path: Path) -> Settings:
    """The home with the profile in it."""
    settings = settings_of(tmp_path)
    settings.home.profile(HER).cron.mkdir(parents=True)
    return settings


@pytest.fixture
def own(above: Settings) -> Settings:
    """The profile's home as one of its own, as `--profile` has it."""
    environ = {"HERMES_HOME": str(above.home.root), "HERMES_TIMEZONE": "Europe/Berlin"}
    settings = load_settings({"profile": HER}, environ)
    settings.home.create()
    return settings


async def test_one_of_two_schedulers_that_start_at_once_takes_and_runs_a_job(
    above: Settings, own: Settings, wire: Wire
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=4)
    often = {"kind": "interval", "minutes": 1}
    old = [job(OLD, schedule=often, next_run_at=soon.isoformat())]
    await asyncio.to_thread(lay_out, above, old, HER)
    async with serving(above, wire) as first, serving(own, wire) as second:
        found = [list(await listed(each, HER)) for each in (first, second)]
        assert sorted(found) == [[], [OLD]]
        kept = OWN_DATABASE if found[1] else DATABASE_ABOVE
        assert await asyncio.to_thread(kept_by, own.home.root) == kept
        await wire.turns.started(1)
        # Whoever else had it would run it at the same moment.
        await asyncio.sleep(1)
        assert sum(wire.turns.start_calls.values()) == 1


async def test_who_has_marked_the_home_takes_the_jobs_after_a_crash(
    above: Settings, own: Settings, wire: Wire
) -> None:
    await asyncio.to_thread(lay_out, above, [job(OLD)], HER)
    await asyncio.to_thread((own.home.root / MARK).write_text, f"{OWN_DATABASE}\n", "utf-8")
    async with serving(above, wire) as served:
        assert await listed(served, HER) == {}
    async with serving(own, wire) as served:
        assert list(await listed(served, HER)) == [OLD]


async def test_what_one_database_keeps_no_other_one_takes(
    above: Settings, own: Settings, wire: Wire
) -> None:
    async with serving(above, wire) as served:
        await served.jobs().CreateJob(request(profile=HER))
    assert await asyncio.to_thread(kept_by, own.home.root) == DATABASE_ABOVE
    async with serving(own, wire) as served:
        add = served.jobs().CreateJob(request(profile=HER))
        reason, message = await refused(add)
        assert reason is Reason.FAILED_PRECONDITION
        where = above.home.database("scheduler")
        assert message.startswith(f"the jobs of profile {HER} are kept in {where}, ")
        reason, again = await refused(take(served, [job(OLD)], profile=HER))
        assert (reason, again) == (Reason.FAILED_PRECONDITION, message)
        assert await listed(served, HER) == {}
    # A database that is gone keeps nothing that could run twice.
    await asyncio.to_thread(where.unlink)
    async with serving(own, wire) as served:
        assert await served.jobs().CreateJob(request(profile=HER))


async def test_a_database_on_a_server_minds_the_mark_and_makes_it(
    above: Settings, own: Settings, wire: Wire, postgres_url: str
) -> None:
    shared = await asyncio.to_thread(settings_of, above.home.root, HERMES_DATABASE_URL=postgres_url)
    async with serving(own, wire) as served:
        await served.jobs().CreateJob(request(profile=HER))
    async with serving(shared, wire) as served:
        reason, message = await refused(served.jobs().CreateJob(request(profile=HER)))
        assert reason is Reason.FAILED_PRECONDITION
        where = own.home.database("scheduler")
        assert message.startswith(f"the jobs of profile {HER} are kept in {where}, ")
        await served.jobs().CreateJob(request())
    kept = await asyncio.to_thread(kept_by, above.home.root)
    assert kept.startswith("postgresql")
    assert "@" not in kept, "it has no secrets"
