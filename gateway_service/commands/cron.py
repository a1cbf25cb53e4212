"""`/cron`: jobs at set times."""

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime

from gateway_service.authorization import Who
from gateway_service.clients.jobs import JobInfo, NewJob, RunInfo
from gateway_service.commands.base import (
    ALONE,
    Answer,
    Chat,
    Command,
    Group,
    Tools,
    Verb,
    denied_here,
    wrong,
)
from gateway_service.commands.texts import code, listed, moment_in, shortened
from gateway_service.errors import SchedulerRefused
from services.errors import InvalidArgument, NotFound, Reason

SCHEDULE_WORDS = 10
"""A schedule in words is no longer."""
RUNS_SHOWN = 5
NAME_CHARS = 60
# Job ids that people can read: they are typed on phones.
_ID_BYTES = 6
_QUOTED = re.compile(r"[\"“](.+?)[\"”][\s:,]*(.*)", re.DOTALL)

HOW = (
    "Say when and what, such as `/cron add every weekday at 9:00 what is on my calendar?`, "
    "`/cron add in 20 minutes remind me of the tea` or "
    '`/cron add "0 9 * * mon-fri" read the news`.'
)


async def _list(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    jobs = await tools.clients.jobs.all(chat.profile)
    if not jobs:
        return Answer(f"There are no jobs yet. {HOW}")
    lines = await asyncio.to_thread(lambda: [_line(job) for job in jobs])
    return Answer(listed(lines, "hermes jobs list shows all of them"))


async def _add(tools: Tools, chat: Chat, arguments: str) -> Answer:
    job_id = chat.effect_id("job", _ID_BYTES)
    # Said again after a crash, "2026-03-01T09:00" may have become the past.
    job = await tools.clients.jobs.get(job_id, chat.profile)
    if job is None:
        schedule, prompt = await _split(tools, chat, arguments)
        if not schedule or not prompt:
            return wrong(HOW)
        denied = denied_here(tools, chat)
        job = await tools.clients.jobs.create(
            NewJob(job_id, chat.profile, schedule, prompt, chat.source, denied)
        )
    return Answer(
        f"Job `{job.job_id}`: {job.schedule}, next {await _time(job, job.next_run_at)} "
        f"({job.time_zone}). Its output comes here."
    )


async def _split(tools: Tools, chat: Chat, text: str) -> tuple[str, str]:
    """The schedule that a text begins with, in quotes or as long as it can be, and the rest."""
    if quoted := _QUOTED.fullmatch(text):
        return quoted[1].strip(), quoted[2].strip()
    words = [match.end() for match in re.finditer(r"\S+", text)][:SCHEDULE_WORDS]
    for end in reversed(words):
        schedule = text[:end].rstrip(":,;.")
        if await tools.clients.jobs.due_times(schedule, chat.profile) is not None:
            return schedule, text[end:].strip()
    return "", text


async def _show(tools: Tools, chat: Chat, arguments: str) -> Answer:
    job = await _named(tools, chat, arguments, "show")
    runs = await tools.clients.jobs.runs(job.job_id, chat.profile, RUNS_SHOWN)
    return Answer("\n".join(await asyncio.to_thread(_told, job, runs)))


def _told(job: JobInfo, runs: Sequence[RunInfo]) -> list[str]:
    """A job and its last runs."""
    zone = job.time_zone
    facts = [
        f"**{shortened(job.name, NAME_CHARS)}** (`{job.job_id}`), {_state(job)}",
        f"- when: {job.schedule} ({zone}), next {moment_in(zone, job.next_run_at)}",
        f"- output to: {job.destination}",
        f"- asks: {code(job.prompt, 400)}",
    ]
    told = [f"- {moment_in(zone, run.due_at)}: {run.state}{_why(run.problem)}" for run in runs]
    return [*facts, *(["\nLast runs:", *told] if told else [])]


async def _pause(tools: Tools, chat: Chat, arguments: str) -> Answer:
    job = await _named(tools, chat, arguments, "pause")
    await tools.clients.jobs.pause(job.job_id, chat.profile)
    return Answer(f"{_called(job)} is paused; /cron resume {job.job_id} lets it run again.")


async def _resume(tools: Tools, chat: Chat, arguments: str) -> Answer:
    job = await _named(tools, chat, arguments, "resume")
    job = await tools.clients.jobs.resume(job.job_id, chat.profile)
    return Answer(f"{_called(job)} runs again, next {await _time(job, job.next_run_at)}.")


async def _run(tools: Tools, chat: Chat, arguments: str) -> Answer:
    job = await _named(tools, chat, arguments, "run")
    await tools.clients.jobs.run(job.job_id, chat.profile, chat.effect_id("run"))
    return Answer(f"{_called(job)} runs now; its output goes to {job.destination}.")


async def _remove(tools: Tools, chat: Chat, arguments: str) -> Answer:
    try:
        job = await _named(tools, chat, arguments, "remove")
    except NotFound:
        return await _removed_before(tools, chat, arguments)
    await tools.clients.jobs.remove(job.job_id, chat.profile)
    return Answer(f"{_called(job)} is removed.")


async def _removed_before(tools: Tools, chat: Chat, job_id: str) -> Answer:
    """What is said of a job that is not listed: removing it again is the same, by its id."""
    try:
        await tools.clients.jobs.remove(job_id.strip("`"), chat.profile)
    except SchedulerRefused as error:
        if error.reason is Reason.NOT_FOUND:
            return wrong(_no_job(job_id))
        raise
    return Answer(f"{code(job_id)} is removed.")


async def _named(tools: Tools, chat: Chat, given: str, verb: str) -> JobInfo:
    """The one job that is meant: by its id, the start of it, or its name.

    All three are looked at together, so that what was meant once means no other job later.
    """
    named = given.strip('`"“” ')
    if not named:
        raise InvalidArgument(f"Say which: `/cron {verb} ID`; /cron lists the jobs.")
    found = [
        job
        for job in await tools.clients.jobs.all(chat.profile)
        if job.job_id == named
        or job.job_id.removeprefix("job_").startswith(named.removeprefix("job_"))
        or job.name.lower() == named.lower()
    ]
    exactly = [job for job in found if job.job_id == named]
    if len(exactly or found) > 1:
        ids = ", ".join(f"`{job.job_id}`" for job in found)
        raise InvalidArgument(f"Several jobs are meant by {code(named)}: {ids}.")
    if not found:
        raise NotFound(_no_job(named))
    return (exactly or found)[0]


async def _time(job: JobInfo, time: datetime | None) -> str:
    return await asyncio.to_thread(moment_in, job.time_zone, time)


def _no_job(named: str) -> str:
    return f"There is no job {code(named)}; /cron lists them."


def _line(job: JobInfo) -> str:
    when = (
        f"next {moment_in(job.time_zone, job.next_run_at)}"
        if job.state == "scheduled"
        else _state(job)
    )
    failed = " ⚠ failed last time" if job.problem else ""
    return f"`{job.job_id}` {shortened(job.name, NAME_CHARS)}: {job.schedule}, {when}{failed}"


def _state(job: JobInfo) -> str:
    return job.state + (f": {shortened(job.pause_reason)}" if job.pause_reason else "")


def _called(job: JobInfo) -> str:
    return f"“{shortened(job.name, NAME_CHARS)}” (`{job.job_id}`)"


def _why(problem: str) -> str:
    return f" ({shortened(problem)})" if problem else ""


_ADMINS = Who.ADMINS

COMMANDS: tuple[Command, ...] = (
    Command(
        "cron",
        Group.JOBS,
        "what Hermes does at set times",
        (
            Verb("list", "the jobs, the one due next first", _list, who=_ADMINS),
            Verb("add", "add a job", _add, "WHEN WHAT", _ADMINS, changes=True),
            Verb("show", "a job and its last runs", _show, "JOB", _ADMINS),
            Verb("pause", "let a job run no more", _pause, "JOB", _ADMINS, changes=True),
            Verb("resume", "let it run again", _resume, "JOB", _ADMINS, changes=True),
            Verb("run", "run it now", _run, "JOB", _ADMINS, changes=True),
            Verb("remove", "remove it", _remove, "JOB", _ADMINS, changes=True),
        ),
        "/cron add every weekday at 9:00 what is on my calendar?",
        ALONE,
    ),
)
"""Those of this module."""
