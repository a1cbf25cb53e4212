"""`/cron`: scheduled jobs."""

import asyncio
import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

from gateway_service.chats.access import Who
from gateway_service.clients import call_scheduler, to_origin
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    format_time,
    list_denied_here,
    render_list,
    shorten,
    wrong,
)
from gateway_service.errors import SchedulerRefused
from hermes.scheduler.v1 import job_pb2, run_pb2, schedule_pb2
from hermes.scheduler.v1.job_pb2 import Job
from services.errors import InvalidArgument, NotFound, Reason

MAX_JOBS = 1000
SCHEDULE_WORDS = 10
"""The most words that a schedule may have."""
RUNS_SHOWN = 5
NAME_CHARS = 60
# Short job ids, because people type them on phones.
_ID_BYTES = 6
_QUOTED = re.compile(r"[\"“](.+?)[\"”][\s:,]*(.*)", re.DOTALL)

_STATES = {
    job_pb2.JOB_STATE_SCHEDULED: "scheduled",
    job_pb2.JOB_STATE_COMPLETED: "completed",
    job_pb2.JOB_STATE_PAUSED: "paused",
}
_RUN_STATES = {
    run_pb2.RUN_STATE_SUCCEEDED: "succeeded",
    run_pb2.RUN_STATE_FAILED: "failed",
    run_pb2.RUN_STATE_CANCELLED: "cancelled",
}

HOW = (
    "Give a schedule and a prompt: `/cron add every weekday at 9:00 what is on my calendar?`, "
    "`/cron add in 20 minutes remind me of the tea` or "
    '`/cron add "0 9 * * mon-fri" read the news`.'
)


async def _jobs(context: CommandContext, chat: Chat) -> Sequence[Job]:
    request = job_pb2.ListJobsRequest(profile=chat.profile, page_size=MAX_JOBS)
    return (await call_scheduler(context.scheduler.jobs.ListJobs, request)).jobs


async def _list(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    jobs = await _jobs(context, chat)
    if not jobs:
        return Answer(f"There are no jobs yet. {HOW}")
    lines = await asyncio.to_thread(lambda: [_line(job) for job in jobs])
    return Answer(render_list(lines, "hermes jobs list shows all jobs"))


async def _add(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    job_id = chat.effect_id("job", _ID_BYTES)
    # In a retry after a crash, a time such as "2026-03-01T09:00" may be in the past.
    job = await _job(context, chat, job_id)
    if job is None:
        schedule, prompt = await _split(context, chat, arguments)
        if not schedule or not prompt:
            return wrong(HOW)
        asked = Job(
            job_id=job_id,
            schedule=schedule,
            prompt=prompt,
            origin=to_origin(chat.source),
            denied_commands=list_denied_here(context, chat),
        )
        request = job_pb2.CreateJobRequest(job=asked, profile=chat.profile)
        job = (await call_scheduler(context.scheduler.jobs.CreateJob, request)).job
    return Answer(
        f"Job `{job.job_id}`: {job.schedule}, next {await _next(job)} ({job.time_zone}). Its "
        "output goes to this chat."
    )


async def _job(context: CommandContext, chat: Chat, job_id: str) -> Job | None:
    request = job_pb2.GetJobRequest(job_id=job_id, profile=chat.profile)
    try:
        found = await call_scheduler(context.scheduler.jobs.GetJob, request)
    except SchedulerRefused as error:
        if error.reason is Reason.NOT_FOUND:
            return None
        raise
    return found.job


async def _split(context: CommandContext, chat: Chat, text: str) -> tuple[str, str]:
    """Split off the schedule, in quotes or as long as possible, from the rest."""
    if quoted := _QUOTED.fullmatch(text):
        return quoted[1].strip(), quoted[2].strip()
    words = [match.end() for match in re.finditer(r"\S+", text)][:SCHEDULE_WORDS]
    for end in reversed(words):
        schedule = text[:end].rstrip(":,;.")
        if await _is_schedule(context, chat, schedule):
            return schedule, text[end:].strip()
    return "", text


async def _is_schedule(context: CommandContext, chat: Chat, text: str) -> bool:
    request = schedule_pb2.PreviewScheduleRequest(schedule=text, count=1, profile=chat.profile)
    try:
        await call_scheduler(context.scheduler.jobs.PreviewSchedule, request)
    except SchedulerRefused as error:
        if error.reason in (Reason.SCHEDULE_INVALID, Reason.INVALID_ARGUMENT):
            return False
        raise
    return True


async def _show(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    job = await _find_job(context, chat, arguments, "show")
    request = run_pb2.ListRunsRequest(job_id=job.job_id, profile=chat.profile, page_size=RUNS_SHOWN)
    found = await call_scheduler(context.scheduler.jobs.ListRuns, request)
    return Answer("\n".join(await asyncio.to_thread(_render_job, job, found.runs)))


def _render_job(job: Job, runs: Sequence[run_pb2.Run]) -> list[str]:
    facts = [
        f"**{shorten(job.name, NAME_CHARS)}** (`{job.job_id}`), {_state(job)}",
        f"- schedule: {job.schedule} ({job.time_zone}), next {_time(job, job.next_run_time)}",
        f"- output to: {_destination(job)}",
        f"- prompt: {code(job.prompt, 400)}",
    ]
    if runs:
        facts.append("\nLast runs:")
    for run in runs:
        state, problem = _RUN_STATES.get(run.state, "in progress"), run.error or run.delivery_error
        why = f" ({shorten(problem)})" if problem else ""
        facts.append(f"- {_time(job, run.scheduled_for)}: {state}{why}")
    return facts


async def _pause(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    job = await _find_job(context, chat, arguments, "pause")
    request = job_pb2.PauseJobRequest(job_id=job.job_id, profile=chat.profile)
    await call_scheduler(context.scheduler.jobs.PauseJob, request)
    return Answer(f"{_called(job)} is paused. To resume it: /cron resume {job.job_id}")


async def _resume(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    job = await _find_job(context, chat, arguments, "resume")
    request = job_pb2.ResumeJobRequest(job_id=job.job_id, profile=chat.profile)
    found = await call_scheduler(context.scheduler.jobs.ResumeJob, request)
    return Answer(f"{_called(job)} is resumed; it runs next {await _next(found.job)}.")


async def _run(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    job = await _find_job(context, chat, arguments, "run")
    run_id = chat.effect_id("run")
    request = run_pb2.RunJobRequest(job_id=job.job_id, profile=chat.profile, run_id=run_id)
    await call_scheduler(context.scheduler.jobs.RunJob, request)
    return Answer(f"{_called(job)} runs now; its output goes to {_destination(job)}.")


async def _remove(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    try:
        job = await _find_job(context, chat, arguments, "remove")
        job_id, removed = job.job_id, _called(job)
    except NotFound:
        # The id makes a repeat harmless.
        job_id, removed = arguments.strip("`"), code(arguments)
    request = job_pb2.DeleteJobRequest(job_id=job_id, profile=chat.profile)
    try:
        await call_scheduler(context.scheduler.jobs.DeleteJob, request)
    except SchedulerRefused as error:
        if error.reason is Reason.NOT_FOUND:
            return wrong(_no_job(arguments))
        raise
    return Answer(f"{removed} was removed.")


async def _find_job(context: CommandContext, chat: Chat, given: str, verb: str) -> Job:
    """Return the job that is meant by its id, the start of it, or its name.

    All three are tried together, so that the same words never mean another job later.
    """
    named = given.strip('`"“” ')
    if not named:
        raise InvalidArgument(f"Name a job: `/cron {verb} ID`. /cron lists the jobs.")
    found = [
        job
        for job in await _jobs(context, chat)
        if job.job_id == named
        or job.job_id.removeprefix("job_").startswith(named.removeprefix("job_"))
        or job.name.lower() == named.lower()
    ]
    exactly = [job for job in found if job.job_id == named]
    if len(exactly or found) > 1:
        ids = ", ".join(f"`{job.job_id}`" for job in found)
        raise InvalidArgument(f"{code(named)} matches several jobs: {ids}.")
    if not found:
        raise NotFound(_no_job(named))
    return (exactly or found)[0]


def _time(job: Job, time: Timestamp) -> str:
    """Return a time in the job's zone, which is read from disk."""
    return format_time(time, ZoneInfo(job.time_zone))


async def _next(job: Job) -> str:
    return await asyncio.to_thread(_time, job, job.next_run_time)


def _destination(job: Job) -> str:
    origin = ":".join(filter(None, (job.origin.platform, job.origin.chat_id)))
    return ", ".join(job.options.deliver_to) or origin or "nowhere; its output is kept"


def _no_job(named: str) -> str:
    return f"There is no job {code(named)}. /cron lists the jobs."


def _line(job: Job) -> str:
    is_scheduled = job.state == job_pb2.JOB_STATE_SCHEDULED
    when = f"next {_time(job, job.next_run_time)}" if is_scheduled else _state(job)
    failed = " ⚠ failed last time" if job.last_error or job.last_delivery_error else ""
    return f"`{job.job_id}` {shorten(job.name, NAME_CHARS)}: {job.schedule}, {when}{failed}"


def _state(job: Job) -> str:
    why = f": {shorten(job.pause_reason)}" if job.pause_reason else ""
    return _STATES.get(job.state, "unknown") + why


def _called(job: Job) -> str:
    return f"“{shorten(job.name, NAME_CHARS)}” (`{job.job_id}`)"


_ADMINS = Who.ADMINS

COMMANDS: tuple[Command, ...] = (
    Command(
        "cron",
        Group.JOBS,
        "list and change scheduled jobs",
        (
            Verb("list", "list the jobs, the next due first", _list, who=_ADMINS),
            Verb("add", "add a job", _add, "SCHEDULE PROMPT", _ADMINS, changes=True),
            Verb("show", "show a job and its latest runs", _show, "JOB", _ADMINS),
            Verb("pause", "pause a job", _pause, "JOB", _ADMINS, changes=True),
            Verb("resume", "resume a paused job", _resume, "JOB", _ADMINS, changes=True),
            Verb("run", "run a job now", _run, "JOB", _ADMINS, changes=True),
            Verb("remove", "remove a job", _remove, "JOB", _ADMINS, changes=True),
        ),
        "/cron add every weekday at 9:00 what is on my calendar?",
        NOT_IN_GROUPS,
    ),
)
