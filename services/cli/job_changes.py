"""Adding, changing, pausing, resuming and removing jobs."""

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from hermes.common.v1.approval_pb2 import UNATTENDED_POLICY_UNSPECIFIED
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_options_pb2, job_pb2, schedule_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli.connection import connected, has_services, start_command
from services.cli.console import complain, counted, print_json, printable, say
from services.cli.executors import executors
from services.cli.failures import EXPECTED, explain
from services.cli.job_lookup import Jobs
from services.cli.job_notes import missing, needs_agent
from services.cli.job_options import CLEARED, UNATTENDED, given_options
from services.cli.job_view import described, due_times, local
from services.config import Settings
from services.errors import InvalidArgument
from services.ids import new_id

CLI = "cli"
ANY_CHAT = "terminal"
"""No session's id: whichever terminal talks next is told."""

_SHOWN_TIMES = 3


def terminal() -> Origin:
    """Where jobs are asked for here, and where their output goes unless they say otherwise."""
    return Origin(platform=CLI, chat_id=ANY_CHAT, trust=TRUST_OWNER)


async def add(settings: Settings, arguments: argparse.Namespace) -> int:
    """Add a job, or only say when it would be due."""
    if arguments.dry_run:
        return await _preview(settings, arguments)
    if not arguments.prompt.strip() and not arguments.no_agent:
        raise InvalidArgument(
            "say what Hermes is asked each time, such as: "
            f'hermes jobs add "{arguments.schedule}" "look for new mail"'
        )
    _check_script(arguments)
    if arguments.sandbox:
        await _check_template(settings, arguments.sandbox)
    runs = await has_services(settings, ("scheduler",))
    # The agent looks through what is asked of it.
    async with connected(settings, ("scheduler", "agent")) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        options = given_options(arguments, await _contexts(jobs, arguments.context_from))
        request = job_pb2.CreateJobRequest(
            job_id=new_id("job"),
            profile=jobs.profile,
            schedule=arguments.schedule,
            prompt=arguments.prompt,
            name=arguments.name or "",
            time_zone=arguments.time_zone or "",
            origin=terminal(),
            sandbox_template=arguments.sandbox or "",
            unattended=UNATTENDED.get(arguments.unattended, UNATTENDED_POLICY_UNSPECIFIED),
            options=job_options_pb2.JobOptions(**options),
            is_paused=arguments.paused,
        )
        made = await jobs.stub.CreateJob(request)
        job, notes = made.job, [*made.notes, *await missing(channels, arguments)]
        times = await _due(jobs.stub, job)
    if arguments.json:
        due = [at.isoformat() for at in times]
        print_json(described(job) | {"due": due, "notes": notes})
        return 0
    say(printable(f"{job.job_id}  {job.name}"))
    _say_due(job, times)
    _complain_of(job, notes)
    if not runs:
        complain(f"jobs run while hermes is running; start it with: {start_command(settings)}")
    return 0


async def edit(settings: Settings, arguments: argparse.Namespace) -> int:
    """Change what is named of a job."""
    if arguments.sandbox:
        await _check_template(settings, arguments.sandbox)
    # Who holds runs to a budget is to hear that there is none any more.
    # And it looks through what is asked of it.
    is_judged = arguments.prompt is not None or arguments.name or "budget" in arguments.clear
    needed = ("scheduler", "agent") if is_judged or needs_agent(arguments) else ("scheduler",)
    async with connected(settings, needed) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        job = await jobs.find(arguments.job)
        contexts = await _contexts(jobs, arguments.context_from)
        request = _change(arguments, job, contexts)
        answer = await jobs.stub.UpdateJob(request)
        changed, notes = answer.job, [*answer.notes, *await missing(channels, arguments)]
        times = await _due(jobs.stub, changed)
    if arguments.json:
        print_json(described(changed) | {"notes": notes})
        return 0
    what = ", ".join(path.removeprefix("options.") for path in request.update_mask.paths)
    say(printable(f"{changed.job_id}  {changed.name}: changed {what}"))
    _say_due(changed, times)
    _complain_of(changed, notes)
    return 0


async def pause(settings: Settings, arguments: argparse.Namespace) -> int:
    """Pause or resume a job, or all."""
    pausing = arguments.action == "pause"
    failed = 0
    async with connected(settings, ("scheduler",)) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        if not arguments.all:
            changed = [await _pause(jobs, await jobs.find(arguments.job), pausing=pausing)]
        else:
            changed = []
            for job in [job async for job in jobs.all() if _may(job, pausing=pausing)]:
                try:
                    changed.append(await _pause(jobs, job, pausing=pausing))
                except EXPECTED as error:
                    failed = 1
                    complain(f"{job.job_id} ({job.name}): {explain(error)}")
    if arguments.json:
        print_json(list(map(described, changed)))
        return failed
    for job in changed:
        told = "is paused" if pausing else f"runs next {local(job.next_run_time, job.time_zone)}"
        say(printable(f"{job.job_id}  {job.name}: {told}"))
    if arguments.all:
        say(f"{counted(len(changed), 'job')} {'paused' if pausing else 'resumed'}")
    return failed


async def remove(settings: Settings, arguments: argparse.Namespace) -> int:
    """Remove a job."""
    async with connected(settings, ("scheduler",)) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        job = await jobs.find(arguments.job)
        await jobs.stub.DeleteJob(job_pb2.DeleteJobRequest(job_id=job.job_id, profile=jobs.profile))
    if arguments.json:
        print_json(described(job))
    else:
        say(printable(f"{job.job_id}  {job.name}: is removed"))
    return 0


async def _preview(settings: Settings, arguments: argparse.Namespace) -> int:
    request = schedule_pb2.PreviewScheduleRequest(
        schedule=arguments.schedule,
        time_zone=arguments.time_zone or "",
        count=_SHOWN_TIMES,
        profile=arguments.profile or "",
    )
    async with connected(settings, ("scheduler",)) as channels:
        found = await JobServiceStub(channels.to("scheduler")).PreviewSchedule(request)
    times = [at.ToDatetime(UTC) for at in found.due_times]
    if arguments.json:
        print_json(
            {
                "schedule": arguments.schedule,
                "time_zone": found.time_zone,
                "kind": schedule_pb2.ScheduleKind.Name(found.kind)
                .removeprefix("SCHEDULE_KIND_")
                .lower(),
                "due": [at.isoformat() for at in times],
            }
        )
    else:
        say(f"would be due ({found.time_zone}):")
        say(due_times(times, found.time_zone))
    return 0


def _change(
    arguments: argparse.Namespace, job: job_pb2.Job, context_ids: list[str]
) -> job_pb2.UpdateJobRequest:
    """What an edit asks for."""
    options = given_options(arguments, context_ids)
    fields: dict[str, Any] = {
        "name": arguments.name,
        "prompt": arguments.prompt,
        "schedule": arguments.schedule,
        "time_zone": arguments.time_zone,
        "sandbox_template": arguments.sandbox,
        "unattended": UNATTENDED.get(arguments.unattended),
    }
    named = {field: value for field, value in fields.items() if value is not None}
    cleared = [path for word in arguments.clear for path in CLEARED[word]]
    paths = [*named, *(f"options.{field}" for field in options)]
    if twice := set(paths) & set(cleared):
        told = ", ".join(sorted(path.removeprefix("options.") for path in twice))
        raise InvalidArgument(f"{told} cannot be given and cleared at once")
    if not paths and not cleared:
        raise InvalidArgument(
            f"say what to change, such as: hermes jobs edit {arguments.job} "
            '--schedule "every 2h"; see hermes jobs edit --help'
        )
    return job_pb2.UpdateJobRequest(
        job=job_pb2.Job(job_id=job.job_id, options=job_options_pb2.JobOptions(**options), **named),
        profile=arguments.profile or "",
        update_mask=FieldMask(paths=list(dict.fromkeys([*paths, *cleared]))),
        request_id=new_id("upd"),
    )


def _check_script(arguments: argparse.Namespace) -> None:
    if arguments.no_agent and not arguments.script:
        raise InvalidArgument("--no-agent goes with --script: the script is the whole run")


async def _contexts(jobs: Jobs, names: Sequence[str] | None) -> list[str]:
    """The ids of the jobs whose output is shown."""
    return [(await jobs.find(name)).job_id for name in names or ()]


async def _due(stub: JobServiceStub, job: job_pb2.Job) -> list[datetime]:
    """The next due times of a job."""
    if not job.next_run_time.seconds:
        return []
    request = schedule_pb2.PreviewScheduleRequest(
        schedule=job.schedule, time_zone=job.time_zone, count=_SHOWN_TIMES
    )
    first = job.next_run_time.ToDatetime(UTC)
    times = [at.ToDatetime(UTC) for at in (await stub.PreviewSchedule(request)).due_times]
    most = min(_SHOWN_TIMES, job.options.max_runs - job.run_count or _SHOWN_TIMES)
    if job.kind == schedule_pb2.SCHEDULE_KIND_INTERVAL:
        # An interval counts from when the job was made, a preview from now.
        every = times[1] - times[0]
        times = [first + number * every for number in range(_SHOWN_TIMES)]
    elif job.kind == schedule_pb2.SCHEDULE_KIND_ONCE:
        times = [first]
    return times[: most if job.options.max_runs else _SHOWN_TIMES]


def _say_due(job: job_pb2.Job, times: Sequence[datetime]) -> None:
    if times:
        say(f"due next ({job.time_zone}):")
        say(due_times(times, job.time_zone))
    elif job.state == job_pb2.JOB_STATE_PAUSED:
        say(f"paused; let it run with: hermes jobs resume {job.job_id}")
    else:
        say("it is over; give it another schedule, or run it now")


def _complain_of(job: job_pb2.Job, notes: Iterable[str]) -> None:
    for note in notes:
        complain(printable(f"{job.job_id}: {note}"))


def _may(job: job_pb2.Job, *, pausing: bool) -> bool:
    """Whether pausing or resuming all is about a job: one that is over has nothing to pause."""
    state = job_pb2.JOB_STATE_SCHEDULED if pausing else job_pb2.JOB_STATE_PAUSED
    return job.state == state


async def _pause(jobs: Jobs, job: job_pb2.Job, *, pausing: bool) -> job_pb2.Job:
    if pausing:
        request = job_pb2.PauseJobRequest(job_id=job.job_id, profile=jobs.profile)
        return (await jobs.stub.PauseJob(request)).job
    wanted = job_pb2.ResumeJobRequest(job_id=job.job_id, profile=jobs.profile)
    return (await jobs.stub.ResumeJob(wanted)).job


async def _check_template(settings: Settings, wanted: str) -> None:
    """Refuse a template that no executor has, where one can be asked."""
    try:
        async with executors(settings) as deployment:
            told = [kind for one in deployment.each for kind in one.capabilities.backends]
    except EXPECTED as error:
        complain(f"whether there is a template {wanted} is not known: {explain(error)}")
        return
    names = dict.fromkeys(kind.template for kind in told if kind.template)
    if wanted not in names:
        listed = ", ".join(names)
        raise InvalidArgument(f"there is no template {wanted!r} of sandboxes; choose of: {listed}")
    meant = [kind for kind in told if kind.template == wanted]
    if not any(kind.available for kind in meant):
        complain(f"no sandbox of template {wanted} can be had now: {meant[0].detail}")
