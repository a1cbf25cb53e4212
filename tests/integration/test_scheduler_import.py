"""The jobs of an older home: taken once, as they are, and given back as such a file."""

import asyncio
import fcntl
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.duration_pb2 import Duration

from hermes.common.v1 import approval_pb2
from hermes.scheduler.v1 import job_file_pb2, job_pb2
from services.config.settings import Settings
from tests.fakes.catalog import ATTACK
from tests.integration.scheduler_parts import Wire, fake_services
from tests.integration.scheduler_served import Serving, options, request, serving, settings_of

SOON = (datetime.now(UTC) + timedelta(hours=5)).replace(microsecond=0)
OFTEN = {"kind": "interval", "minutes": 90}
PAST = SOON - timedelta(days=400)
PAUSED = job_pb2.JOB_STATE_PAUSED


def job(job_id: str, **fields: Any) -> dict[str, Any]:
    """A job as an older home has it."""
    return {
        "id": job_id,
        "name": f"job {job_id}",
        "prompt": "answer hello",
        "schedule": {"kind": "cron", "expr": "0 9 * * mon-fri", "display": "mornings"},
        "enabled": True,
        "state": "scheduled",
        **fields,
    }


def lay_out(berlin: Settings, jobs: list[Any], profile: str = "default") -> Path:
    """Put a file of jobs into a home as another program left it."""
    path = berlin.home.profile(profile).cron / "jobs.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"jobs": jobs}).encode())
    return path


async def listed(served: Serving, profile: str = "") -> dict[str, job_pb2.Job]:
    """The jobs by their ids."""
    asked = job_pb2.ListJobsRequest(profile=profile)
    answer = await served.jobs().ListJobs(asked)
    return {each.job_id: each for each in answer.jobs}


async def take(served: Serving, jobs: list[Any], **fields: Any) -> dict[str, Any]:
    """What became of jobs of a file, by their names."""
    asked = job_file_pb2.ImportJobsRequest(document=json.dumps(jobs).encode(), **fields)
    answer = await served.jobs().ImportJobs(asked)
    return {each.name: (each.outcome, "; ".join(each.notes)) for each in answer.jobs}


async def test_the_jobs_of_a_home_are_taken_once(berlin: Settings, wire: Wire) -> None:
    old = [
        job("0a1b2c3d4e5f", next_run_at=SOON.isoformat(), schedule=OFTEN),
        job("1a1b2c3d4e5f", enabled=False, state="paused", repeat={"times": 5, "completed": 2}),
        job("2a1b2c3d4e5f", schedule={"kind": "once", "run_at": SOON.isoformat()}),
        "no job",
    ]  # fmt: skip
    path = await asyncio.to_thread(lay_out, berlin, old)
    before = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(lay_out, berlin, old[:1], "ann")
    async with serving(berlin, wire) as served:
        found, hers = await listed(served), await listed(served, "ann")
        assert sorted(found) == ["0a1b2c3d4e5f", "1a1b2c3d4e5f", "2a1b2c3d4e5f"]
        assert found["0a1b2c3d4e5f"].next_run_time.ToDatetime(UTC) == SOON
        assert found["1a1b2c3d4e5f"].state == PAUSED
        assert (found["1a1b2c3d4e5f"].options.max_runs, found["1a1b2c3d4e5f"].run_count) == (5, 2)
        (own,) = hers
        assert own.startswith("job_"), "an id is one job's alone, over all profiles"
        await served.jobs().DeleteJob(job_pb2.DeleteJobRequest(job_id="2a1b2c3d4e5f"))
    async with serving(berlin, wire) as again:
        assert sorted(await listed(again)) == ["0a1b2c3d4e5f", "1a1b2c3d4e5f"]
        assert list(await listed(again, "ann")) == [own]
    assert await asyncio.to_thread(path.read_bytes) == before


@pytest.mark.parametrize("lock", ["gateway.lock", "cron/.tick.lock"])
async def test_nothing_is_taken_while_another_program_runs_the_jobs(
    berlin: Settings, wire: Wire, lock: str
) -> None:
    await asyncio.to_thread(lay_out, berlin, [job("0a1b2c3d4e5f")])
    path = berlin.home.root / lock
    await asyncio.to_thread(path.write_bytes, b"1")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with serving(berlin, wire) as served:
            assert await listed(served) == {}
    async with serving(berlin, wire) as served:
        assert list(await listed(served)) == ["0a1b2c3d4e5f"]


async def test_what_cannot_be_a_job_is_named_and_the_rest_is_taken(
    berlin: Settings, wire: Wire
) -> None:
    scripts = {"backup.sh": "tar c /srv\n"}
    given = [
        job("a", skills=["arxiv"], model="small", enabled_toolsets=["web"], context_from=["b"]),
        job("b", script="backup.sh", no_agent=True, prompt="", mine=1, yours=2),
        job("c", script="gone.sh"),
        job("d", schedule={"kind": "once", "run_at": PAST.isoformat()}),
        job("e", schedule={"kind": "moon"}),
        job("f", schedule={"kind": "cron", "expr": "0 25 * * *"}),
        job("g", prompt=""),
        job("h", provider="elsewhere"),
        job("i", deliver="slack"),
        job("j", deliver="telegram:42:7,local", origin={"platform": "telegram", "chat_id": 42}),
        job("k", state="completed", last_run_at=PAST.isoformat(), last_status="ok"),
        job("l", prompt=ATTACK),
        job("a", name="twin"),
        job("m", context_from=["nobody"]),
        job("n", workdir="here"),
        7,
    ]
    async with serving(berlin, wire) as served:
        told = await take(served, given, scripts=scripts, time_zone="Asia/Tokyo")
        found = await listed(served)
        again = await take(served, given[:2], scripts=scripts)
    taken, left = job_file_pb2.IMPORT_OUTCOME_TAKEN, job_file_pb2.IMPORT_OUTCOME_LEFT
    expected = {
        "job a": (taken, ""),
        "job b": (taken, "what is not known is left out: mine, yours"),
        "job c": (left, "its script gone.sh is not in the folder scripts"),
        "job d": (left, "its time has passed"),
        "job e": (left, "of no kind once, interval or cron"),
        "job f": (left, 'the hour "25" is outside 0-23'),
        "job g": (left, "it has no prompt"),
        "job h": (taken, "it is paused: it asks for provider elsewhere"),
        "job i": (taken, ""),
        "job j": (taken, ""),
        "job k": (taken, ""),
        "job l": (left, "looks like an attack"),
        "twin": (left, "another job of the file has its id"),
        "job m": (taken, "no output of jobs that are not here is shown to it: nobody"),
        "job n": (left, "must be an absolute path"),
        "number 16": (left, "it is no object"),
    }
    assert {name: outcome for name, (outcome, _) in told.items()} == {
        name: outcome for name, (outcome, _) in expected.items()
    }
    for name, (_, part) in expected.items():
        assert part in told[name][1], name
        assert part or not told[name][1], name
    assert {outcome for outcome, _ in again.values()} == {job_file_pb2.IMPORT_OUTCOME_PRESENT}
    assert sorted(found) == ["a", "b", "h", "i", "j", "k", "m"]
    assert found["a"].time_zone == "Asia/Tokyo"
    assert list(found["a"].options.context_job_ids) == ["b"]
    assert found["b"].options.script == "tar c /srv\n"
    assert found["k"].state == job_pb2.JOB_STATE_COMPLETED
    assert [*found["j"].options.deliver_to] == ["telegram:42:7"]


async def test_a_platform_alone_stays_a_target(berlin: Settings, wire: Wire) -> None:
    given = [
        job("a", deliver="telegram"),
        job("b", deliver="telegram", origin={"platform": "telegram", "chat_id": 7}),
        job("c", deliver="telegram,slack:C1"),
    ]
    await asyncio.to_thread(lay_out, berlin, given)
    async with serving(berlin, wire) as served:
        found = await listed(served)
    assert {name: [*each.options.deliver_to] for name, each in found.items()} == {
        "a": ["telegram"],
        "b": [],
        "c": ["telegram", "slack:C1"],
    }
    assert {each.state for each in found.values()} == {job_pb2.JOB_STATE_SCHEDULED}


async def test_a_job_that_is_paused_for_its_provider_can_be_resumed(
    berlin: Settings, wire: Wire
) -> None:
    await asyncio.to_thread(lay_out, berlin, [job("h", provider="elsewhere")])
    async with serving(berlin, wire) as served:
        found = await listed(served)
        assert "it asks for provider elsewhere" in found["h"].pause_reason
        resumed = (await served.jobs().ResumeJob(job_pb2.ResumeJobRequest(job_id="h"))).job
        assert (resumed.state, resumed.pause_reason) == (job_pb2.JOB_STATE_SCHEDULED, "")


async def test_what_is_given_is_taken_again_as_it_was(
    berlin: Settings, wire: Wire, tmp_path: Path
) -> None:
    asked = {
        "plain": request(job_id="plain"),
        "interval": request(job_id="interval", schedule="every 90s", state=PAUSED),
        "once": request(job_id="once", schedule="in 2 hours", time_zone="Asia/Tokyo"),
        "all": request(
            job_id="all",
            schedule="every day at 9:00 America/New_York",
            sandbox_template="walled",
            unattended=approval_pb2.UNATTENDED_POLICY_HALT,
            denied_commands=["memory", "cron add"],
            options=options(
                skills=["news"], model="small", script="date", script_mode=2,
                context_job_ids=["plain"], toolsets=["web"], workdir="/srv", max_runs=3,
                deliver_to=["matrix:!a:b,c", "home"],
                missed_run_policy=3, max_missed_runs=4, missed_run_grace=Duration(),
                overlap_policy=3, jitter=Duration(seconds=5), timeout=Duration(seconds=6),
                max_retries=7, retry_backoff=Duration(seconds=8), budget_micro_usd=9,
            ),
        ),
    }  # fmt: skip
    async with serving(berlin, wire) as served:
        for one in asked.values():
            await served.jobs().CreateJob(one)
        before = await listed(served)
        given = await served.jobs().ExportJobs(job_file_pb2.ExportJobsRequest())
    assert given.job_count == len(before) == 4
    elsewhere = await asyncio.to_thread(settings_of, tmp_path / "other")
    async with serving(elsewhere, wire) as other:
        wanted = job_file_pb2.ImportJobsRequest(document=given.document)
        answer = await other.jobs().ImportJobs(wanted)
        assert [list(each.notes) for each in answer.jobs] == [[]] * 4
        after = await listed(other)
        again = await other.jobs().ExportJobs(job_file_pb2.ExportJobsRequest())
    assert after == before
    assert json.loads(again.document)["jobs"] == json.loads(given.document)["jobs"]


async def test_who_takes_over_a_job_with_secrets_is_told_of_them(
    berlin: Settings, wire: Wire
) -> None:
    given = [job("aa", script="look.sh"), job("bb")]
    scripts = {"look.sh": "export TOKEN=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\n./look\n"}
    async with serving(berlin, wire) as served:
        tried = await take(served, given, scripts=scripts, dry_run=True)
        told = await take(served, given, scripts=scripts)
        stored = (await listed(served))["aa"]
    assert "1 secret was taken out of its script" in told["job aa"][1]
    assert tried["job aa"][1] == told["job aa"][1]
    assert told["job bb"][1] == ""
    assert stored.options.script == "export TOKEN=[REDACTED]\n./look\n"


async def test_a_run_leaves_its_output_in_the_home(berlin: Settings, wire: Wire) -> None:
    folder = berlin.home.cron / "output" / "x"
    old = [f"2020-01-01_00-{minute:02}-00.md" for minute in range(55)]

    def lay_out_old() -> None:
        folder.mkdir(parents=True)
        for name in (*old, "mine.md"):
            (folder / name).write_text("old")

    await asyncio.to_thread(lay_out_old)
    async with serving(berlin, wire) as served:
        wanted = request(job_id="x", schedule="in 1s", prompt="answer hello", name="tea")
        made = await served.jobs().CreateJob(wanted)
        due = made.job.next_run_time.ToDatetime(UTC).astimezone(ZoneInfo("Europe/Berlin"))
        while not (await listed(served))["x"].last_run_time.seconds:  # noqa: ASYNC110 - it is a row
            await asyncio.sleep(0.05)

    def look() -> tuple[list[str], str]:
        names = sorted(path.name for path in folder.iterdir())
        return names, (folder / names[-2]).read_text(encoding="utf-8")

    names, text = await asyncio.to_thread(look)
    assert len(names) == 51
    assert names[-1] == "mine.md", "what has another name is somebody else's"
    assert names[0] == old[6], "50 are kept of each job"
    assert names[-2] == f"{due:%Y-%m-%d_%H-%M-%S}.md"
    assert text.startswith("# tea\n\n- job: x\n")
    assert text.endswith("## Output\n\nhello\n")


TAKING = """
import asyncio, sys
from pathlib import Path
from tests.integration.test_scheduler_import import serve_once
asyncio.run(serve_once(Path(sys.argv[1])))
"""


async def serve_once(folder: Path) -> None:
    """Serve a home until it is listed what it has."""
    settings = await asyncio.to_thread(settings_of, folder)
    async with fake_services() as wire, serving(settings, wire) as served:
        await listed(served)


@pytest.mark.timeout(120)
async def test_who_is_killed_while_taking_them_takes_all_or_none(
    berlin: Settings, wire: Wire, tmp_path: Path
) -> None:
    jobs = [job(f"{number:012x}") for number in range(400)]
    await asyncio.to_thread(lay_out, berlin, jobs)
    database = berlin.home.database("scheduler")

    def kill_while_it_writes() -> None:
        # The tables are there before the jobs are read.
        with subprocess.Popen([sys.executable, "-c", TAKING, str(tmp_path)]) as process:
            while process.poll() is None and not database.exists():
                pass
            try:
                process.wait(0.15)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)

    await asyncio.to_thread(kill_while_it_writes)
    for _ in range(2):
        async with serving(berlin, wire) as served:
            asked = job_pb2.ListJobsRequest(page_size=1000)
            answer = await served.jobs().ListJobs(asked)
            assert len(answer.jobs) == 400
