"""Adds, changes, pauses, resumes and removes jobs."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from hermes.agent.v1 import skill_pb2, tool_catalog_pb2
from hermes.agent.v1.skill_pb2_grpc import SkillServiceStub
from hermes.agent.v1.tool_catalog_pb2_grpc import ToolCatalogServiceStub
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_pb2, schedule_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.amounts import plural
from services.cli.command import Context
from services.cli.connection import at_home, has_services, start_command
from services.cli.console import complain, printable, say
from services.cli.failures import EXPECTED, explain
from services.cli.jobs.options import CLEARED, given_fields, option_of, read_script
from services.cli.jobs.runs import all_jobs, find_job
from services.cli.jobs.view import due_times, local
from services.cli.output import field_value, json_value, print_json
from services.cli.sandboxes.executors import executors
from services.cli.startup import catalog, imported
from services.config.paths import nearest, suggestion
from services.config.settings import Settings
from services.errors import InvalidArgument
from services.ids import new_id
from services.rpc.messages import message_of

CLI = "cli"
ANY_CHAT = "terminal"
"""Stands for the next terminal that talks, instead of a session's id."""

_SHOWN_TIMES = 3
_WITHOUT_PLATFORM = ("origin", "local", "cli", "home", "all")
"""Targets without a platform."""


def terminal() -> Origin:
    """Return the origin of jobs from this terminal, their default target."""
    return Origin(platform=CLI, chat_id=ANY_CHAT, trust=TRUST_OWNER)


async def add(context: Context) -> int:
    """Add a job."""
    given, settings = context.given, context.settings
    asked = given_fields(given)
    if given.dry_run:
        return await context.run(_preview, ("scheduler",))
    if "options.script_mode" in asked and "options.script" not in asked:
        raise InvalidArgument("--no-agent needs --script")
    if not given.prompt.strip() and "options.script_mode" not in asked:
        raise InvalidArgument(
            f'give a prompt, such as: hermes jobs add "{given.schedule}" "look for new mail"'
        )
    await _check_template(settings, given.sandbox_template)
    runs = await has_services(settings, ("scheduler",))
    # The agent scans the prompt.
    await context.run(_create, ("scheduler", "agent"))
    if not runs and not given.json:
        complain(f"jobs run only while hermes is running; start it with: {start_command(settings)}")
    return 0


async def _create(context: Context) -> None:
    job = message_of(
        await _fields(context),
        job_pb2.Job,
        job_id=new_id("job"),
        origin=terminal(),
        state=job_pb2.JOB_STATE_PAUSED if context.given.paused else None,
    )
    request = job_pb2.CreateJobRequest(job=job, profile=context.profile)
    made = await context.stub(JobServiceStub).CreateJob(request)
    await _tell(context, made.job, made.notes, "")


async def edit(context: Context) -> int:
    """Change a job; options that you do not give stay as they are."""
    given = context.given
    await _check_template(context.settings, given.sandbox_template)
    # The agent scans the prompt, knows the names, and keeps budgets.
    named = {"prompt", "name", "options.skills", "options.toolsets"} & given_fields(given).keys()
    needs_agent = named or any(word.startswith("budget") for word in given.clear)
    return await context.run(_edit, ("scheduler", "agent") if needs_agent else ("scheduler",))


async def _edit(context: Context) -> None:
    given, job = context.given, await find_job(context)
    fields = await _fields(context)
    cleared = [path for word in given.clear for path in CLEARED[word]]
    paths = list(dict.fromkeys([*fields, *cleared]))
    if not paths:
        raise InvalidArgument(
            f"give a change, such as: hermes jobs edit {given.job} "
            '--schedule "every 2h"; see hermes jobs edit --help'
        )
    request = job_pb2.UpdateJobRequest(
        job=message_of(fields, job_pb2.Job, job_id=job.job_id),
        profile=context.profile,
        update_mask=FieldMask(paths=paths),
        request_id=new_id("upd"),
    )
    answer = await context.stub(JobServiceStub).UpdateJob(request)
    what = ", ".join(dict.fromkeys([*map(option_of, fields), *given.clear]))
    await _tell(context, answer.job, answer.notes, f": changed {what}")


async def _tell(context: Context, job: job_pb2.Job, notes: Iterable[str], done: str) -> None:
    """Report a job, its next due time and notes."""
    notes, times = await _add_missing(context, [*notes]), await _due(context, job)
    if context.given.json:
        due = [at.isoformat() for at in times]
        print_json({**json_value(job), "due": due, "notes": notes})
        return
    say(printable(f"{job.job_id}  {job.name}{done}"))
    if times:
        say(f"next runs ({job.time_zone}):")
        say(due_times(times, job.time_zone))
    elif job.state == job_pb2.JOB_STATE_PAUSED:
        say(f"paused; resume it with: hermes jobs resume {job.job_id}")
    else:
        say("it has ended; change its schedule, or run it now")
    for note in notes:
        complain(printable(f"{job.job_id}: {note}"))


async def pause(context: Context) -> int:
    """Pause a job until you resume it."""
    given, pausing = context.given, context.given.action == "pause"
    failed, changed = 0, list[job_pb2.Job]()
    if given.all:
        # A completed job cannot be paused.
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
        print_json(changed)
        return failed
    for job in changed:
        text = "paused" if pausing else f"next run {local(job.next_run_time, job.time_zone)}"
        say(printable(f"{job.job_id}  {job.name}: {text}"))
    if given.all:
        say(f"{plural(len(changed), 'job')} {'paused' if pausing else 'resumed'}")
    return failed


async def remove(context: Context) -> None:
    """Remove a job; a run in progress continues."""
    job = await find_job(context)
    request = job_pb2.DeleteJobRequest(job_id=job.job_id, profile=context.profile)
    await context.stub(JobServiceStub).DeleteJob(request)
    context.print_value(job, f"{job.job_id}  {job.name}: removed")


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
    due, kind = [at.isoformat() for at in times], field_value(found, "kind")
    how = {"schedule": given.schedule, "time_zone": found.time_zone, "kind": kind, "due": due}
    text = f"would run ({found.time_zone}):\n{due_times(times, found.time_zone)}"
    context.print_value(how, text)


async def _fields(context: Context) -> dict[str, Any]:
    """Return the given fields of a job, with the script's text and resolved job ids."""
    fields = given_fields(context.given)
    if path := fields.get("options.script"):
        fields["options.script"] = await read_script(path)
    if named := fields.get("options.context_job_ids"):
        fields["options.context_job_ids"] = [
            (await find_job(context, name)).job_id for name in named
        ]
    return fields


async def _due(context: Context, job: job_pb2.Job) -> list[datetime]:
    """Return the next due time, or a few for calendar schedules."""
    if not job.next_run_time.seconds:
        return []
    if job.kind != schedule_pb2.SCHEDULE_KIND_CRON:
        return [job.next_run_time.ToDatetime(UTC)]
    most = job.options.max_runs - job.run_count if job.options.max_runs else _SHOWN_TIMES
    request = schedule_pb2.PreviewScheduleRequest(
        schedule=job.schedule, time_zone=job.time_zone, count=min(most, _SHOWN_TIMES)
    )
    found = await context.stub(JobServiceStub).PreviewSchedule(request)
    return [at.ToDatetime(UTC) for at in found.due_times]


async def _pause(context: Context, job: job_pb2.Job, *, pausing: bool) -> job_pb2.Job:
    stub, which = context.stub(JobServiceStub), {"job_id": job.job_id, "profile": context.profile}
    if pausing:
        return (await stub.PauseJob(job_pb2.PauseJobRequest(**which))).job
    return (await stub.ResumeJob(job_pb2.ResumeJobRequest(**which))).job


async def _add_missing(context: Context, notes: list[str]) -> list[str]:
    """Add a note for each missing thing that a job names: it may come later."""
    fields = given_fields(context.given)
    skills, toolsets = fields.get("options.skills"), fields.get("options.toolsets")
    for place in fields.get("options.deliver_to", ()):
        beginning = f"cannot deliver to {place}"
        why = _why_unconnected(context.settings, place.partition(":")[0])
        if why and not any(note.startswith(beginning) for note in notes):
            notes.append(f"{beginning}: {why}")
    try:
        if skills:
            request = skill_pb2.ListSkillsRequest(profile=context.profile)
            found = (await context.stub(SkillServiceStub).ListSkills(request)).skills
            known = {name for it in found for name in (it.name, f"{it.category}/{it.name}")}
            notes += _unknown("skill", skills, known)
        if toolsets:
            asked = tool_catalog_pb2.ListToolsRequest(profile=context.profile)
            listed = await context.stub(ToolCatalogServiceStub).ListTools(asked)
            notes += _unknown("toolset", toolsets, listed.toolsets)
    except EXPECTED as error:
        notes.append(f"cannot check its skills and toolsets: {explain(error)}")
    return notes


def _why_unconnected(settings: Settings, platform: str) -> str:
    """Return why a platform cannot be delivered to; a gateway elsewhere tells the scheduler."""
    platforms = catalog().root.inside["platforms"].inside.keys()
    if platform not in (*platforms, *_WITHOUT_PLATFORM):
        return f"there is no platform {platform!r}; use one of {', '.join(sorted(platforms))}"
    if not at_home(settings, ("gateway",)):
        return ""
    config = settings.load(imported("gateway_service.config:GatewayConfig"))
    off = {each.name: each.needs for each in config.platforms if not each.is_on}
    return f"{platform} is off; set {off[platform]} to use it" if platform in off else ""


def _unknown(what: str, names: Iterable[str], known: Collection[str]) -> list[str]:
    return [
        f"there is no {what} {name!r}{suggestion(nearest(name, known))}"
        for name in names
        if name not in known
    ]


async def _check_template(settings: Settings, wanted: str | None) -> None:
    """Refuse a template that no executor has, if one can be asked."""
    if not wanted:
        return
    try:
        async with executors(settings) as deployment:
            kinds = [kind for one in deployment.each for kind in one.capabilities.backends]
    except EXPECTED as error:
        complain(f"cannot check the template {wanted}: {explain(error)}")
        return
    meant = [kind for kind in kinds if kind.template == wanted]
    if not meant:
        listed = ", ".join(dict.fromkeys(kind.template for kind in kinds if kind.template))
        raise InvalidArgument(f"there is no sandbox template {wanted!r}; use one of: {listed}")
    if not any(kind.available for kind in meant):
        complain(f"the template {wanted} is not available now: {meant[0].detail}")
