"""JobService: what jobs keep, how they are changed, paused and run when somebody asks for it."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from hermes.scheduler.v1 import job_options_pb2, job_pb2, run_pb2, schedule_pb2
from hermes.scheduler.v1.job_options_pb2 import JobOptions
from services.errors import Reason
from tests.integration.scheduler_served import Serving, change, options, refused, request

OPTIONS = options(
    skills=["news"],
    model="small",
    script="date",
    script_mode=job_options_pb2.SCRIPT_MODE_GATE,
    context_job_ids=["x"],
    toolsets=["web"],
    workdir="/srv/news",
    deliver_to=["origin", "slack:1:2"],
    max_runs=3,
    missed_run_policy=job_options_pb2.MISSED_RUN_POLICY_ALL,
    max_missed_runs=4,
    missed_run_grace=Duration(),
    overlap_policy=job_options_pb2.OVERLAP_POLICY_REPLACE,
    jitter=Duration(seconds=5),
    timeout=Duration(seconds=6),
    max_retries=7,
    retry_backoff=Duration(seconds=8),
    budget_micro_usd=9,
    budget_tokens=10,
)


KEY = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


async def test_who_puts_secrets_into_a_job_is_told_what_became_of_them(served: Serving) -> None:
    jobs, script = served.jobs(), f"export A={KEY}\nexport B={KEY[:-1]}9\n./look\n"
    wanted = request(job_id="x", prompt=f"look with {KEY}", options=options(script=script))
    made = await jobs.CreateJob(wanted)
    assert KEY[:20] not in made.job.options.script
    of_prompt, of_script = made.notes
    assert of_prompt.startswith("1 secret was taken out of its prompt")
    assert of_script.startswith("2 secrets were taken out of its script")
    assert "executor.secrets" in of_script
    assert (await jobs.CreateJob(wanted)).notes == made.notes
    changed = await jobs.UpdateJob(change("x", prompt="look", options=options(script="./look")))
    assert not changed.notes
    again = await jobs.UpdateJob(change("x", options=options(script=f"./look {KEY}")))
    assert [note.partition(" script")[0] for note in again.notes] == [
        "1 secret was taken out of its"
    ]


async def test_who_sends_a_job_where_nothing_is_connected_is_told(served: Serving) -> None:
    jobs, place = served.jobs(), "telegram:42"
    served.wire.deliveries.refusal = grpc.StatusCode.INVALID_ARGUMENT
    wanted = request(job_id="x", options=options(deliver_to=[place]))
    told = "cannot deliver to telegram:42: there is no such platform"
    assert list((await jobs.CreateJob(wanted)).notes) == [told]
    served.wire.deliveries.refusal = None
    changed = await jobs.UpdateJob(change("x", options=options(deliver_to=[place])))
    assert not changed.notes
    served.wire.deliveries.refusal = grpc.StatusCode.UNAVAILABLE
    assert not (await jobs.CreateJob(wanted)).notes
    assert not served.wire.deliveries.requests


async def test_every_option_of_a_job_is_kept(served: Serving) -> None:
    jobs = served.jobs()
    assert len(OPTIONS.ListFields()) == len(JobOptions.DESCRIPTOR.fields)
    made = await jobs.CreateJob(request(job_id="x", options=OPTIONS))
    assert made.job.options == OPTIONS
    plain = (await jobs.CreateJob(request(job_id="plain"))).job.options
    assert plain.missed_run_policy == job_options_pb2.MISSED_RUN_POLICY_ONCE
    assert plain.overlap_policy == job_options_pb2.OVERLAP_POLICY_FORBID


async def test_only_the_named_fields_of_a_job_change(served: Serving) -> None:
    jobs = served.jobs()
    made = await jobs.CreateJob(request(job_id="x", options=OPTIONS))
    before = made.job
    asked = change("x", prompt="answer more", schedule="every 2h")
    asked.job.name = "not named in the mask"
    asked.update_mask.paths.append("options.model")
    after = (await jobs.UpdateJob(asked)).job
    assert (after.prompt, after.schedule, after.options.model) == ("answer more", "every 2h", "")
    assert after.name == "answer more"  # as it was never given one
    assert after.next_run_time.ToDatetime() != before.next_run_time.ToDatetime()
    assert after.update_time.ToDatetime() > before.update_time.ToDatetime()
    expected = JobOptions()
    expected.CopyFrom(OPTIONS)
    expected.ClearField("model")
    assert after.options == expected
    assert (await jobs.GetJob(job_pb2.GetJobRequest(job_id="x"))).job == after
    named = (await jobs.UpdateJob(change("x", name="News", prompt="answer y"))).job
    renamed = (await jobs.UpdateJob(change("x", prompt="answer z"))).job
    assert (named.name, renamed.name, renamed.prompt) == ("News", "News", "answer z")
    assert renamed.next_run_time == after.next_run_time
    for wrong in ([], ["job_id"], ["run_count"], ["options.nothing"]):
        asked = job_pb2.UpdateJobRequest(job=after, update_mask=FieldMask(paths=wrong))
        assert (await refused(jobs.UpdateJob(asked)))[0] is Reason.INVALID_ARGUMENT
    reason, message = await refused(jobs.UpdateJob(change("x", schedule="never")))
    assert reason is Reason.SCHEDULE_INVALID
    assert "examples" in message


async def test_a_job_of_more_runs_goes_on_and_one_of_fewer_ends(served: Serving) -> None:
    jobs = served.jobs()
    await jobs.CreateJob(request(job_id="x", schedule="1s"))
    await served.wire.deliveries.delivered(1)
    again = (await jobs.UpdateJob(change("x", schedule="in 1 second"))).job
    assert again.state == job_pb2.JOB_STATE_SCHEDULED
    await served.wire.deliveries.delivered(2)
    ended = (await jobs.GetJob(job_pb2.GetJobRequest(job_id="x"))).job
    assert (ended.state, ended.run_count) == (job_pb2.JOB_STATE_COMPLETED, 1)
    reason, message = await refused(jobs.ResumeJob(job_pb2.ResumeJobRequest(job_id="x")))
    assert reason is Reason.FAILED_PRECONDITION
    assert "no due time any more; give it another schedule, or run it now" in message


async def test_a_paused_job_does_not_run_until_it_is_resumed(served: Serving) -> None:
    jobs, pause = served.jobs(), job_pb2.PauseJobRequest(job_id="x")
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=4)
    await jobs.CreateJob(request(job_id="x", schedule=soon.isoformat()))
    for _ in range(2):
        paused = (await jobs.PauseJob(pause)).job
        assert paused.state == job_pb2.JOB_STATE_PAUSED
        assert not paused.HasField("next_run_time")
    resume = job_pb2.ResumeJobRequest(job_id="x")
    for _ in range(2):
        resumed = (await jobs.ResumeJob(resume)).job
        assert resumed.state == job_pb2.JOB_STATE_SCHEDULED
        assert resumed.next_run_time.ToDatetime(UTC) == soon
    await jobs.PauseJob(pause)
    await jobs.CreateJob(request(job_id="probe", schedule="5s", prompt="answer probe"))
    assert await served.wire.deliveries.delivered(1) == ["probe"]
    reason, message = await refused(jobs.ResumeJob(resume))
    assert reason is Reason.FAILED_PRECONDITION
    assert "no due time any more" in message
    moved = (await jobs.UpdateJob(change("x", schedule="every 1h"))).job
    assert moved.state == job_pb2.JOB_STATE_PAUSED
    assert not moved.HasField("next_run_time")
    assert (await jobs.ResumeJob(resume)).job.HasField("next_run_time")
    stored = await jobs.CreateJob(request(job_id="y", state=job_pb2.JOB_STATE_PAUSED))
    assert stored.job.state == job_pb2.JOB_STATE_PAUSED


async def test_a_job_is_run_now_once_for_each_id(served: Serving) -> None:
    jobs = served.jobs()
    made = await jobs.CreateJob(request(job_id="x", state=job_pb2.JOB_STATE_PAUSED))
    now = run_pb2.RunJobRequest(job_id="x", run_id="now-1")
    first = (await jobs.RunJob(now)).run
    assert (first.run_id, first.job_id, first.is_requested) == ("now-1", "x", True)
    assert await served.wire.deliveries.delivered(1) == ["the news"]
    watched = [each.run async for each in jobs.WatchRun(run_pb2.WatchRunRequest(run_id="now-1"))]
    assert watched[-1].state == run_pb2.RUN_STATE_SUCCEEDED
    assert (await jobs.RunJob(now)).run == watched[-1]
    assert (await jobs.GetRun(run_pb2.GetRunRequest(run_id="now-1"))).run == watched[-1]
    assert watched[-1].turn_id == "now-1"
    assert served.wire.turns.requests["now-1"].session_id == watched[-1].session_id
    await jobs.RunJob(run_pb2.RunJobRequest(job_id="x", run_id="now-2"))
    assert len(await served.wire.deliveries.delivered(2)) == 2
    after = (await jobs.GetJob(job_pb2.GetJobRequest(job_id="x"))).job
    assert (after.state, after.run_count) == (made.job.state, 0)
    await jobs.CreateJob(request(job_id="y"))
    taken = jobs.RunJob(run_pb2.RunJobRequest(job_id="y", run_id="now-1"))
    assert (await refused(taken))[0] is Reason.ALREADY_EXISTS
    long = jobs.RunJob(run_pb2.RunJobRequest(job_id="x", run_id="r" * 81))
    assert (await refused(long))[0] is Reason.INVALID_ARGUMENT


async def test_a_run_that_may_not_be_overlapped_is_waited_for(served: Serving) -> None:
    jobs = served.jobs()
    await jobs.CreateJob(request(job_id="x", prompt="wait done"))
    await jobs.RunJob(run_pb2.RunJobRequest(job_id="x", run_id="one"))
    watching = aiter(jobs.WatchRun(run_pb2.WatchRunRequest(run_id="one")))
    while (await anext(watching)).run.state != run_pb2.RUN_STATE_RUNNING:
        pass
    second = run_pb2.RunJobRequest(job_id="x", run_id="two")
    reason, message = await refused(jobs.RunJob(second))
    assert reason is Reason.FAILED_PRECONDITION
    assert "run one of job x is under way" in message
    assert (await jobs.RunJob(run_pb2.RunJobRequest(job_id="x", run_id="one"))).run.attempt == 1
    served.wire.turns.release("one")
    assert [each.run.state async for each in watching][-1] == run_pb2.RUN_STATE_SUCCEEDED
    assert (await jobs.RunJob(second)).run.run_id == "two"
    served.wire.turns.release("two")


async def test_a_zone_that_a_schedule_names_is_the_jobs(served: Serving) -> None:
    jobs = served.jobs()
    asked = request(job_id="x", schedule="every day at 9:00 Asia/Tokyo", time_zone="Europe/Berlin")
    job = (await jobs.CreateJob(asked)).job
    assert job.time_zone == "Asia/Tokyo"
    assert job.next_run_time.ToDatetime(UTC).hour == 0
    preview = schedule_pb2.PreviewScheduleRequest(schedule=asked.job.schedule, time_zone="UTC")
    assert (await jobs.PreviewSchedule(preview)).time_zone == "Asia/Tokyo"
    wanted = change("x", schedule="every day at noon America/Santiago")
    changed = (await jobs.UpdateJob(wanted)).job
    assert changed.time_zone == "America/Santiago"


async def test_a_schedule_is_previewed_in_its_zone(served: Serving) -> None:
    jobs = served.jobs()
    preview = schedule_pb2.PreviewScheduleRequest(schedule="every weekday at 9:00", count=6)
    shown = await jobs.PreviewSchedule(preview)
    zone = ZoneInfo("Europe/Berlin")
    walls = [at.ToDatetime(UTC).astimezone(zone) for at in shown.due_times]
    assert {(wall.hour, wall.minute) for wall in walls} == {(9, 0)}
    assert len(walls) == 6
    assert walls == sorted(walls)
    assert (shown.kind, shown.time_zone) == (schedule_pb2.SCHEDULE_KIND_CRON, "Europe/Berlin")
    once = schedule_pb2.PreviewScheduleRequest(schedule="in 2h", time_zone="Asia/Tokyo")
    shown = await jobs.PreviewSchedule(once)
    assert len(shown.due_times) == 1
    assert shown.time_zone == "Asia/Tokyo"
    wrong = jobs.PreviewSchedule(schedule_pb2.PreviewScheduleRequest(schedule="blue"))
    assert (await refused(wrong))[0] is Reason.SCHEDULE_INVALID
    many = jobs.PreviewSchedule(schedule_pb2.PreviewScheduleRequest(schedule="@daily", count=101))
    assert (await refused(many))[0] is Reason.INVALID_ARGUMENT
