"""Adds, changes, pauses, resumes and removes jobs."""

import argparse
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from hermes.agent.v1 import skill_pb2, tool_catalog_pb2
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from hermes.common.v1.approval_pb2 import UNATTENDED_POLICY_UNSPECIFIED
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_options_pb2, job_pb2, schedule_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.amounts import plural
from services.cli.command import Context
from services.cli.connection import has_services, start_command
from services.cli.console import complain, print_json, printable, say
from services.cli.executors import executors
from services.cli.failures import EXPECTED, explain
from services.cli.job_options import CLEARED, given_options, target_text, unattended
from services.cli.job_runs import all_jobs, find_job
from services.cli.job_view import JOB, due_times, local
from services.cli.output import describe, field_value
from services.cli.startup import catalog
from services.config import Settings
from services.config_paths import nearest, suggestion
from services.errors import InvalidArgument
from services.ids import new_id

CLI = "cli"
ANY_CHAT = "terminal"
"""No session's id: whichever terminal talks next is told."""

_SHOWN_TIMES = 3
_WITHOUT_PLATFORM = ("origin", "local", "cli")
"""Where output can go without a platform."""


def terminal() -> Origin:
    """Where jobs are asked for here, and where their output goes unless they say otherwise."""
    return Origin(platform=CLI, chat_id=ANY_CHAT, trust=TRUST_OWNER)


async def add(context: Context) -> int:
    """Add a job, or only say when it would be due."""
    given, settings = context.given, context.settings
    if given.dry_run:
        return await context.run(_preview, ("scheduler",))
    if given.no_agent and not given.script:
        raise InvalidArgument("--no-agent goes with --script: the script is the whole run")
    if not given.prompt.strip() and not given.no_agent:
        raise InvalidArgument(
            "say what Hermes is asked each time, such as: "
            f'hermes jobs add "{given.schedule}" "look for new mail"'
        )
    await _check_template(settings, given.sandbox)
    runs = await has_services(settings, ("scheduler",))
    # The agent looks through what is asked of it.
    await context.run(_create, ("scheduler", "agent"))
    if not runs and not given.json:
        complain(f"jobs run while hermes is running; start it with: {start_command(settings)}")
    return 0


async def _create(context: Context) -> None:
    given = context.given
    job = job_pb2.Job(
        job_id=new_id("job"),
        schedule=given.schedule,
        prompt=given.prompt,
        name=given.name or "",
        time_zone=given.time_zone or "",
        origin=terminal(),
        sandbox_template=given.sandbox or "",
        unattended=unattended(given) or UNATTENDED_POLICY_UNSPECIFIED,
        options=job_options_pb2.JobOptions(**given_options(given, await _contexts(context))),
        state=job_pb2.JOB_STATE_PAUSED if given.paused else job_pb2.JOB_STATE_UNSPECIFIED,
    )
    request = job_pb2.CreateJobRequest(job=job, profile=context.profile)
    made = await context.stub(JobServiceStub).CreateJob(request)
    notes = [*made.notes, *await _missing(context)]
    times = await _due(context, made.job)
    if given.json:
        due = [at.isoformat() for at in times]
        print_json(describe(made.job, JOB) | {"due": due, "notes": notes})
        return
    say(printable(f"{made.job.job_id}  {made.job.name}"))
    _say_due(made.job, times, notes)


async def edit(context: Context) -> int:
    """Change what is named of a job."""
    given = context.given
    await _check_template(context.settings, given.sandbox)
    # The agent looks through what is asked of it, knows what is named, and holds budgets.
    named = (given.prompt is not None, given.name, given.skills, given.toolsets)
    needs_agent = any(named) or "budget" in given.clear
    return await context.run(_edit, ("scheduler", "agent") if needs_agent else ("scheduler",))


async def _edit(context: Context) -> None:
    job = await find_job(context)
    request = _change(context.given, job, await _contexts(context))
    answer = await context.stub(JobServiceStub).UpdateJob(request)
    changed, notes = answer.job, [*answer.notes, *await _missing(context)]
    if context.given.json:
        print_json(describe(changed, JOB) | {"notes": notes})
        return
    what = ", ".join(path.removeprefix("options.") for path in request.update_mask.paths)
    say(printable(f"{changed.job_id}  {changed.name}: changed {what}"))
    _say_due(changed, await _due(context, changed), notes)


async def pause(context: Context) -> int:
    """Pause or resume a job, or all."""
    given, pausing = context.given, context.given.action == "pause"
    failed, changed = 0, list[job_pb2.Job]()
    if given.all:
        # One that is over has nothing to pause.
        state = job_pb2.JOB_STATE_SCHEDULED if pausing else job_pb2.JOB_STATE_PAUSED
        for job in [job for job in await all_jobs(context) if job.state == state]:
            try:
                changed.append(await _pause(context, job, pausing=pausing))
            except EXPECTED as error:
                failed = 1
                complain(f"{job.job_id} ({job.name}): {explain(error)}")
    else:
        changed.append(await _pause(context, await find_job(context), pausing=pausing))
    if given.json:
        print_json([describe(job, JOB) for job in changed])
        return failed
    for job in changed:
        told = "is paused" if pausing else f"runs next {local(job.next_run_time, job.time_zone)}"
        say(printable(f"{job.job_id}  {job.name}: {told}"))
    if given.all:
        say(f"{plural(len(changed), 'job')} {'paused' if pausing else 'resumed'}")
    return failed


async def remove(context: Context) -> None:
    """Remove a job."""
    job = await find_job(context)
    request = job_pb2.DeleteJobRequest(job_id=job.job_id, profile=context.profile)
    await context.stub(JobServiceStub).DeleteJob(request)
    context.print_one(job, JOB, f"{job.job_id}  {job.name}: is removed")


async def _preview(context: Context) -> None:
    given = context.given
    request = schedule_pb2.PreviewScheduleRequest(
        schedule=given.schedule,
        time_zone=given.time_zone or "",
        count=_SHOWN_TIMES,
        profile=context.profile,
    )
    found = await context.stub(JobServiceStub).PreviewSchedule(request)
    times = [at.ToDatetime(UTC) for at in found.due_times]
    if given.json:
        due = [at.isoformat() for at in times]
        kind = field_value(found, "kind")
        how = {"schedule": given.schedule, "time_zone": found.time_zone, "kind": kind}
        print_json({**how, "due": due})
    else:
        say(f"would be due ({found.time_zone}):")
        say(due_times(times, found.time_zone))


def _change(
    given: argparse.Namespace, job: job_pb2.Job, context_ids: list[str]
) -> job_pb2.UpdateJobRequest:
    """What an edit asks for."""
    options = given_options(given, context_ids)
    fields: dict[str, Any] = {
        "name": given.name,
        "prompt": given.prompt,
        "schedule": given.schedule,
        "time_zone": given.time_zone,
        "sandbox_template": given.sandbox,
        "unattended": unattended(given),
    }
    named = {field: value for field, value in fields.items() if value is not None}
    cleared = [path for word in given.clear for path in CLEARED[word]]
    paths = [*named, *(f"options.{field}" for field in options)]
    if twice := set(paths) & set(cleared):
        told = ", ".join(sorted(path.removeprefix("options.") for path in twice))
        raise InvalidArgument(f"{told} cannot be given and cleared at once")
    if not paths and not cleared:
        raise InvalidArgument(
            f"say what to change, such as: hermes jobs edit {given.job} "
            '--schedule "every 2h"; see hermes jobs edit --help'
        )
    return job_pb2.UpdateJobRequest(
        job=job_pb2.Job(job_id=job.job_id, options=job_options_pb2.JobOptions(**options), **named),
        profile=given.profile or "",
        update_mask=FieldMask(paths=list(dict.fromkeys([*paths, *cleared]))),
        request_id=new_id("upd"),
    )


async def _contexts(context: Context) -> list[str]:
    """The ids of the jobs whose output is shown."""
    return [(await find_job(context, name)).job_id for name in context.given.context_from or ()]


async def _due(context: Context, job: job_pb2.Job) -> list[datetime]:
    """The next due times of a job."""
    if not job.next_run_time.seconds:
        return []
    request = schedule_pb2.PreviewScheduleRequest(
        schedule=job.schedule, time_zone=job.time_zone, count=_SHOWN_TIMES
    )
    found = await context.stub(JobServiceStub).PreviewSchedule(request)
    first, times = job.next_run_time.ToDatetime(UTC), [at.ToDatetime(UTC) for at in found.due_times]
    if job.kind == schedule_pb2.SCHEDULE_KIND_INTERVAL:
        # An interval counts from when the job was made, a preview from now.
        times = [first + number * (times[1] - times[0]) for number in range(_SHOWN_TIMES)]
    elif job.kind == schedule_pb2.SCHEDULE_KIND_ONCE:
        times = [first]
    most = job.options.max_runs
    return times[: max(1, most - job.run_count) if most else _SHOWN_TIMES]


def _say_due(job: job_pb2.Job, times: Sequence[datetime], notes: Iterable[str]) -> None:
    if times:
        say(f"due next ({job.time_zone}):")
        say(due_times(times, job.time_zone))
    elif job.state == job_pb2.JOB_STATE_PAUSED:
        say(f"paused; let it run with: hermes jobs resume {job.job_id}")
    else:
        say("it is over; give it another schedule, or run it now")
    for note in notes:
        complain(printable(f"{job.job_id}: {note}"))


async def _pause(context: Context, job: job_pb2.Job, *, pausing: bool) -> job_pb2.Job:
    stub, which = context.stub(JobServiceStub), {"job_id": job.job_id, "profile": context.profile}
    if pausing:
        return (await stub.PauseJob(job_pb2.PauseJobRequest(**which))).job
    return (await stub.ResumeJob(job_pb2.ResumeJobRequest(**which))).job


# ---- what a job names that is not there


async def _missing(context: Context) -> list[str]:
    """A note for each thing that a job names and that is not there: it may come later."""
    given, notes = context.given, list[str]()
    platforms = {path.split(".")[1] for path in catalog().paths.inside(("platforms",))}
    for place in given.deliver_to or ():
        if place.platform not in (*platforms, *_WITHOUT_PLATFORM):
            nowhere = f"there is no platform {place.platform!r}, but {', '.join(sorted(platforms))}"
            notes.append(f"nothing can go to {target_text(place)}: {nowhere}")
    try:
        if given.skills:
            request = skill_pb2.ListSkillsRequest(profile=context.profile)
            found = (await context.stub(SkillServiceStub).ListSkills(request)).skills
            known = {name for it in found for name in (it.name, f"{it.category}/{it.name}")}
            notes += _unknown("skill", given.skills, known)
        if given.toolsets:
            asked = tool_catalog_pb2.ListToolsRequest(profile=context.profile)
            listed = await context.stub(ToolCatalogServiceStub).ListTools(asked)
            notes += _unknown("toolset", given.toolsets, listed.toolsets)
    except EXPECTED as error:
        notes.append(f"whether its skills and toolsets are there is not known: {explain(error)}")
    return notes


def _unknown(what: str, names: Iterable[str], known: Collection[str]) -> list[str]:
    return [
        f"there is no {what} {name!r} now{suggestion(nearest(name, known))}"
        for name in names
        if name not in known
    ]


async def _check_template(settings: Settings, wanted: str | None) -> None:
    """Refuse a template that no executor has, where one can be asked."""
    if not wanted:
        return
    try:
        async with executors(settings) as deployment:
            told = [kind for one in deployment.each for kind in one.capabilities.backends]
    except EXPECTED as error:
        complain(f"whether there is a template {wanted} is not known: {explain(error)}")
        return
    meant = [kind for kind in told if kind.template == wanted]
    if not meant:
        listed = ", ".join(dict.fromkeys(kind.template for kind in told if kind.template))
        raise InvalidArgument(f"there is no template {wanted!r} of sandboxes; choose of: {listed}")
    if not any(kind.available for kind in meant):
        complain(f"no sandbox of template {wanted} can be had now: {meant[0].detail}")
