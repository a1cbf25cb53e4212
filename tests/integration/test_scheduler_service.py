"""JobService as other services meet it: a real server on a Unix socket, with policy and tokens."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from hermes.common.v1 import approval_pb2, origin_pb2
from hermes.scheduler.v1 import job_pb2, run_pb2, schedule_pb2
from services.errors import Reason, details_of
from tests.integration.scheduler_served import Serving, change, options, refused, request

_TARGET = ("options.deliver_to", "a target such as")


async def test_a_job_is_stored_with_its_next_run_in_the_configured_zone(served: Serving) -> None:
    wanted = request(name="News")
    answer = await served.jobs().CreateJob(wanted)
    job = answer.job
    assert (job.job_id, job.name, job.prompt) == (wanted.job.job_id, "News", "answer the news")
    assert job.kind == schedule_pb2.SCHEDULE_KIND_CRON
    assert job.state == job_pb2.JOB_STATE_SCHEDULED
    assert job.time_zone == "Europe/Berlin"
    assert (job.origin.platform, job.origin.chat_id) == ("telegram", "42")
    due = job.next_run_time.ToDatetime(UTC)
    assert datetime.now(UTC) < due < datetime.now(UTC) + timedelta(days=4)
    got = await served.jobs().GetJob(job_pb2.GetJobRequest(job_id=wanted.job.job_id))
    assert got.job == job
    other_zone = await served.jobs().CreateJob(request(time_zone="Asia/Tokyo"))
    assert other_zone.job.next_run_time.ToDatetime(UTC).hour == 0


async def test_creating_is_idempotent_by_id(served: Serving) -> None:
    jobs = served.jobs()
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat(timespec="seconds")
    first = request(schedule=soon, prompt="answer once")
    created = await jobs.CreateJob(first)
    await served.wire.deliveries.delivered(1)
    again = await jobs.CreateJob(first)  # by now it lies in the past
    assert again.job.job_id == created.job.job_id
    assert again.job.create_time == created.job.create_time
    assert len((await jobs.ListJobs(job_pb2.ListJobsRequest())).jobs) == 1
    changes: tuple[dict[str, Any], ...] = (
        *({"name": "other"}, {"profile": "ada"}, {"time_zone": "UTC"}),
        {"sandbox_template": "small"},
        {"unattended": approval_pb2.UNATTENDED_POLICY_HALT},
        *({"state": job_pb2.JOB_STATE_PAUSED}, {"options": options(model="other")}),
    )
    for changed in changes:
        other = request(job_id=first.job.job_id, schedule=soon, prompt="answer once", **changed)
        reason, message = await refused(jobs.CreateJob(other))
        assert reason is Reason.ALREADY_EXISTS
        assert first.job.job_id in message


async def test_a_job_passes_its_template_and_its_policy_to_its_turns(served: Serving) -> None:
    jobs, turns = served.jobs(), served.wire.turns
    wanted = {("", approval_pb2.UNATTENDED_POLICY_UNSPECIFIED)}
    wanted.add(("small", approval_pb2.UNATTENDED_POLICY_HALT))
    for template, policy in wanted:
        asked = request(schedule="in 1 second", sandbox_template=template, unattended=policy)
        await jobs.CreateJob(asked)
    listed = (await jobs.ListJobs(job_pb2.ListJobsRequest())).jobs
    started = [turns.requests[turn_id] for turn_id in await turns.started(2)]
    for found in (listed, started):
        assert {(each.sandbox_template, each.unattended) for each in found} == wanted


SENSELESS: Sequence[tuple[dict[str, Any], str, str]] = [
    ({"job_id": "a/b"}, "job_id", "1 to 128 characters"),
    ({"schedule": " "}, "schedule", "say when"),
    ({"prompt": " \n"}, "prompt", "say what"),
    ({"prompt": "ä" * 33_000}, "prompt", "65536 bytes"),
    ({"name": "n" * 201}, "name", "200 characters"),
    ({"prompt": "a\0b"}, "prompt", "no NUL"),
    ({"sandbox_template": "t" * 65}, "sandbox_template", "1 to 64 characters"),
    ({"unattended": 9}, "unattended", "'9'"),
    ({"origin": origin_pb2.Origin(platform="telegram")}, "origin", "a platform and a chat"),
    ({"options": options(skills=["s"] * 21)}, "options.skills", "<= 20"),
    ({"options": options(model="m" * 201)}, "options.model", "<= 200"),
    ({"name": "mail\nnews"}, "name", "one line"),
    ({"options": options(script_mode=1)}, "options.script", "what to run"),
    ({"options": options(script="a", script_mode=9)}, "options.script_mode", "'9'"),
    ({"options": options(workdir="here")}, "options.workdir", "an absolute path"),
    ({"options": options(context_job_ids=["gone"])}, "options.context_job_ids", "no job gone"),
    ({"options": options(missed_run_policy=9)}, "options.missed_run_policy", "'9'"),
    ({"options": options(max_runs=-1)}, "options.max_runs", ">= 0"),
    ({"options": options(budget_tokens=-1)}, "options.budget_tokens", ">= 0"),
    ({"options": options(timeout=Duration())}, "options.timeout", "1 to 604800 seconds"),
    ({"options": options(jitter=Duration(nanos=5))}, "options.jitter", "whole ones"),
    ({"options": options(deliver_to=[" "])}, *_TARGET),
    ({"options": options(deliver_to=["x" * 256])}, *_TARGET),
    (
        {"options": options(deliver_to=["origin", "local"])},
        "options.deliver_to",
        'nothing else beside "local"',
    ),
]


async def test_a_request_that_makes_no_sense_names_its_field(served: Serving) -> None:
    for fields, field, said in SENSELESS:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.jobs().CreateJob(request(**fields))
        details = details_of(caught.value)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert details.reason is Reason.INVALID_ARGUMENT
        assert said in details.fields[field], fields


async def test_a_schedule_that_is_not_understood_comes_back_with_examples(served: Serving) -> None:
    call = served.jobs().CreateJob(request(schedule="every blursday at 9"))
    reason, message = await refused(call)
    assert reason is Reason.SCHEDULE_INVALID
    assert '"blursday" is neither a day' in message
    assert '"every weekday at 9:00"' in message
    reason, message = await refused(served.jobs().CreateJob(request(time_zone="Mars/Olympus")))
    assert reason is Reason.SCHEDULE_INVALID
    assert '"Mars/Olympus" is not a time zone' in message


async def test_the_list_comes_in_pages_the_one_due_next_first(served: Serving) -> None:
    jobs = served.jobs()
    ids: list[str] = []
    for hours in (5, 1, 4, 2, 3):
        wanted = request(job_id=f"in{hours}", schedule=f"in {hours} hours")
        ids.append((await jobs.CreateJob(wanted)).job.job_id)
    await jobs.CreateJob(request(job_id="once", schedule="1s"))
    await served.wire.deliveries.delivered(1)
    pages: list[list[str]] = []
    token = ""
    while not pages or token:
        page = await jobs.ListJobs(job_pb2.ListJobsRequest(page_size=2, page_token=token))
        pages.append([job.job_id for job in page.jobs])
        token = page.next_page_token
    assert pages == [["in1", "in2"], ["in3", "in4"], ["in5", "once"]]
    for bad in ("nonsense", "WzEsMl0", "e30="):
        reason, _ = await refused(jobs.ListJobs(job_pb2.ListJobsRequest(page_token=bad)))
        assert reason is Reason.INVALID_ARGUMENT
    reason, _ = await refused(jobs.ListJobs(job_pb2.ListJobsRequest(page_size=1001)))
    assert reason is Reason.INVALID_ARGUMENT


async def test_another_profiles_job_is_not_there(served: Serving) -> None:
    jobs = served.jobs()
    await jobs.CreateJob(request(job_id="mine", profile="ada"))
    for job_id in ("mine", "missing"):
        calls = [
            jobs.GetJob(job_pb2.GetJobRequest(job_id=job_id, profile="bob")),
            jobs.DeleteJob(job_pb2.DeleteJobRequest(job_id=job_id, profile="bob")),
            jobs.ListRuns(run_pb2.ListRunsRequest(job_id=job_id, profile="bob")),
            jobs.PauseJob(job_pb2.PauseJobRequest(job_id=job_id, profile="bob")),
            jobs.ResumeJob(job_pb2.ResumeJobRequest(job_id=job_id, profile="bob")),
            jobs.RunJob(run_pb2.RunJobRequest(job_id=job_id, profile="bob", run_id="r")),
            jobs.UpdateJob(change(job_id, profile="bob", prompt="answer bob")),
        ]
        for call in calls:
            assert await refused(call) == (Reason.NOT_FOUND, f"there is no job {job_id}")
    assert not (await jobs.ListJobs(job_pb2.ListJobsRequest(profile="bob"))).jobs
    listed = await jobs.ListJobs(job_pb2.ListJobsRequest(profile="ada"))
    assert [job.job_id for job in listed.jobs] == ["mine"]


async def test_a_deleted_job_does_not_run_and_its_id_stays_used(served: Serving) -> None:
    jobs = served.jobs()
    wanted = request(job_id="gone", schedule="2s")
    await jobs.CreateJob(wanted)
    delete = job_pb2.DeleteJobRequest(job_id="gone")
    await jobs.DeleteJob(delete)
    await jobs.DeleteJob(delete)
    await jobs.CreateJob(request(job_id="probe", schedule="3s", prompt="answer probe"))
    assert await served.wire.deliveries.delivered(1) == ["probe"]
    listed = await jobs.ListJobs(job_pb2.ListJobsRequest())
    assert [job.job_id for job in listed.jobs] == ["probe"]
    assert (await refused(jobs.GetJob(job_pb2.GetJobRequest(job_id="gone"))))[0] is Reason.NOT_FOUND
    assert (await refused(jobs.CreateJob(wanted)))[0] is Reason.ALREADY_EXISTS


async def test_runs_are_listed_with_what_came_of_them(served: Serving) -> None:
    jobs = served.jobs()
    await jobs.CreateJob(request(job_id="x", schedule="1s"))
    (text,) = await served.wire.deliveries.delivered(1)
    (delivery_id,) = served.wire.deliveries.requests
    run = run_pb2.Run()
    while run.state != run_pb2.RUN_STATE_SUCCEEDED:
        (run,) = (await jobs.ListRuns(run_pb2.ListRunsRequest(job_id="x"))).runs
    assert (run.run_id, run.job_id, run.output, run.error) == (delivery_id, "x", text, "")
    assert run.scheduled_for.ToDatetime() <= run.claim_time.ToDatetime()
    assert run.claim_time.ToDatetime() <= run.finish_time.ToDatetime()
    value = served.registry.get_sample_value
    while not value("hermes_cron_runs_total", {"outcome": "succeeded"}):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert value("hermes_cron_runs_total", {"outcome": "succeeded"}) == 1
    assert value("hermes_cron_lateness_seconds_count") == 1
    assert value("hermes_cron_lateness_seconds_bucket", {"le": "1.0"}) == 1
    assert value("hermes_cron_next_due_timestamp_seconds") == 0
    await jobs.DeleteJob(job_pb2.DeleteJobRequest(job_id="x"))
    kept = (await jobs.GetRun(run_pb2.GetRunRequest(run_id=run.run_id))).run
    assert kept == (await jobs.ListRuns(run_pb2.ListRunsRequest(job_id="x"))).runs[0] == run
