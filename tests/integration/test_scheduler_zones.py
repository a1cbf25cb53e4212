"""The time zones of jobs: those of their profiles, and what another one changes."""

import asyncio
import json
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from hermes.scheduler.v1 import job_file_pb2, job_pb2, schedule_pb2
from services.cli.jobs.files import zone_of
from services.config.settings import Settings, load_settings
from services.errors import Reason
from tests.integration.scheduler_served import Serving, change, refused, request

DAILY = {"kind": "cron", "expr": "0 9 * * *"}


@pytest.fixture
def berlin(tmp_path: Path) -> Settings:
    (tmp_path / "config.yaml").write_text("timezone: Europe/Berlin\n")
    read = load_settings({}, {"HERMES_HOME": str(tmp_path)})
    read.home.create()
    return read


async def test_another_zone_moves_nothing_that_goes_by_no_clock(served: Serving) -> None:
    jobs = served.jobs()
    before = (await jobs.CreateJob(request(schedule="every 2h"))).job
    changed = (await jobs.UpdateJob(change(before.job_id, time_zone="Asia/Tokyo"))).job
    assert changed.time_zone == "Asia/Tokyo"
    assert changed.next_run_time == before.next_run_time


async def test_another_zone_moves_what_goes_by_the_clock(served: Serving) -> None:
    jobs = served.jobs()
    before = (await jobs.CreateJob(request(schedule="every day at 9:00"))).job
    changed = (await jobs.UpdateJob(change(before.job_id, time_zone="America/New_York"))).job
    walls = [
        job.next_run_time.ToDatetime(UTC).astimezone(ZoneInfo(job.time_zone)).hour
        for job in (before, changed)
    ]
    assert walls == [9, 9]
    assert changed.time_zone == "America/New_York"
    assert changed.next_run_time != before.next_run_time


async def test_a_zone_that_cannot_count_is_refused(served: Serving) -> None:
    jobs = served.jobs()
    named = request(job_id="x", schedule="every day at 9:00 Asia/Tokyo")
    await jobs.CreateJob(named)
    reason, message = await refused(jobs.UpdateJob(change("x", time_zone="Europe/Rome")))
    assert (reason, "it names its time zone itself" in message) == (Reason.SCHEDULE_INVALID, True)
    await jobs.CreateJob(request(job_id="y", schedule="tomorrow at 9:00"))
    reason, message = await refused(jobs.UpdateJob(change("y", time_zone="Mars/Olympus")))
    assert '"Mars/Olympus" is not a time zone' in message
    reason, message = await refused(jobs.UpdateJob(change("y", time_zone="Pacific/Auckland")))
    assert "it runs once; give it a new schedule in Pacific/Auckland" in message


async def test_a_profile_has_the_zone_that_its_own_home_names(
    berlin: Settings, served: Serving
) -> None:
    for profile, text in (("work", "timezone: Asia/Tokyo\n"), ("plain", "")):
        home = berlin.home.profile(profile)
        await asyncio.to_thread(home.root.mkdir, parents=True)
        await asyncio.to_thread(home.config.write_text, text)
    jobs, found = served.jobs(), dict[str, list[str]]()
    for profile in ("", "work", "plain", "homeless"):
        asked = request(profile=profile)
        made = (await jobs.CreateJob(asked)).job
        preview = schedule_pb2.PreviewScheduleRequest(schedule=asked.job.schedule, profile=profile)
        document = json.dumps(
            [{"name": "a", "prompt": "b", "schedule": asked.job.schedule}]
        ).encode()
        await jobs.ImportJobs(job_file_pb2.ImportJobsRequest(profile=profile, document=document))
        kept = (await jobs.ListJobs(job_pb2.ListJobsRequest(profile=profile))).jobs
        shown = await jobs.PreviewSchedule(preview)
        found[profile] = [made.time_zone, shown.time_zone, *(job.time_zone for job in kept)]
    own = {profile: set(zones) for profile, zones in found.items()}
    assert own.pop("work") == {"Asia/Tokyo"}
    assert [*own.values()] == [{"Europe/Berlin"}] * 3


@pytest.mark.parametrize(
    ("environment", "zone"),
    [("HERMES_TIMEZONE=Asia/Tokyo\n", "Asia/Tokyo"), ("HERMES_TIMEZONE=\n", "America/New_York")],
)
def test_a_zone_that_is_left_empty_is_not_set(tmp_path: Path, environment: str, zone: str) -> None:
    (tmp_path / ".env").write_text(environment)
    (tmp_path / "config.yaml").write_text("timezone: America/New_York\n")
    assert zone_of(tmp_path) == zone
