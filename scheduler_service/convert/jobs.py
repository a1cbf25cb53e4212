"""Jobs on the wire."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.agent.v1 import turn_pb2
from hermes.common.v1 import approval_pb2
from hermes.scheduler.v1 import job_file_pb2 as files
from hermes.scheduler.v1 import job_pb2, run_pb2
from scheduler_service.convert.common import (
    kind_to_wire,
    origin_of,
    origin_to_wire,
    profile_of,
    state_to_wire,
    timestamp_to_wire,
)
from scheduler_service.convert.options import (
    is_script_only,
    options_of,
    options_to_wire,
    wrong_options,
)
from scheduler_service.home.mover import JobFile, Moved
from scheduler_service.jobs import Job, JobRequest, JobState
from scheduler_service.options import JobOptions
from scheduler_service.storage.jobs import Position
from services.errors import InvalidArgument
from services.validation import check_id, denied_commands

_MAX_PROMPT_BYTES = 64 * 1024
_NAME_CHARS = 60
_MAX_NAME_CHARS = 200
_MAX_TEMPLATE_CHARS = 64
_NOT_IN_A_LINE = re.compile("[\x01-\x1f\x7f-\x9f\u2028\u2029]")

_UNATTENDED = {
    "": approval_pb2.UNATTENDED_POLICY_UNSPECIFIED,
    "deny": approval_pb2.UNATTENDED_POLICY_DENY,
    "wait": approval_pb2.UNATTENDED_POLICY_WAIT,
    "halt": approval_pb2.UNATTENDED_POLICY_HALT,
}
_CHANGEABLE = (
    *("name", "prompt", "schedule", "time_zone", "origin"),
    *("sandbox_template", "unattended", "options", "denied_commands"),
)
_UNATTENDED_NAMES = {number: name for name, number in _UNATTENDED.items()}
_JOB_STATES = {
    JobState.SCHEDULED: job_pb2.JOB_STATE_SCHEDULED,
    JobState.COMPLETED: job_pb2.JOB_STATE_COMPLETED,
    JobState.PAUSED: job_pb2.JOB_STATE_PAUSED,
}


def job_request(message: job_pb2.CreateJobRequest) -> JobRequest:
    """Read and check what is to be created; raises InvalidArgument."""
    check_id("job_id", message.job_id)
    if message.sandbox_template:
        check_id("sandbox_template", message.sandbox_template, _MAX_TEMPLATE_CHARS)
    wrong = _wrong(message)
    if wrong:
        text = "; ".join(f"{field} {problem}" for field, problem in wrong.items())
        raise InvalidArgument(text, fields=wrong)
    return JobRequest(
        id=message.job_id,
        profile=profile_of(message.profile),
        name=message.name or _name_of(message.prompt or message.options.script),
        prompt=message.prompt,
        schedule=message.schedule,
        time_zone=message.time_zone,
        origin=origin_of(message.origin) if message.HasField("origin") else None,
        sandbox_template=message.sandbox_template,
        unattended=_UNATTENDED_NAMES[message.unattended],
        options=options_of(message.options),
        is_paused=message.is_paused,
        denied=denied_commands(message.denied_commands),
    )


def changed_request(update: job_pb2.UpdateJobRequest, before: Job) -> JobRequest:
    """Read and check what a job is to become; raises InvalidArgument."""
    after, asked = job_to_wire(before), job_pb2.Job()
    asked.CopyFrom(update.job)
    # Of options that are not there, no field would be taken over.
    asked.options.SetInParent()
    update.update_mask.MergeMessage(asked, after, True, True)
    is_named = before.name != _name_of(before.prompt)
    return job_request(
        job_pb2.CreateJobRequest(
            job_id=before.id,
            profile=before.profile,
            schedule=after.schedule,
            time_zone=after.time_zone,
            prompt=after.prompt,
            name=after.name if is_named or "name" in update.update_mask.paths else "",
            origin=after.origin if after.HasField("origin") else None,
            sandbox_template=after.sandbox_template,
            unattended=after.unattended,
            options=after.options,
            denied_commands=_denied(update, before, after),
        )
    )


def _denied(update: job_pb2.UpdateJobRequest, before: Job, after: job_pb2.Job) -> set[str]:
    """What is denied to a job's runs once it is changed; a person to whom something is denied
    lifts nothing, and what the others have said of it stays in it."""
    asked, own = {*after.denied_commands}, {*update.denied_commands}
    return asked | own.union(before.denied) if own else asked


def is_rescheduled(update: job_pb2.UpdateJobRequest) -> bool:
    """Check which fields are to change, and return whether the schedule is among them."""
    paths = update.update_mask.paths
    wrong = [path for path in paths if path.partition(".")[0] not in _CHANGEABLE]
    if wrong or not paths or not update.update_mask.IsValidForDescriptor(job_pb2.Job.DESCRIPTOR):
        problem = f"must have one or more of {', '.join(_CHANGEABLE)} and fields of the options"
        raise InvalidArgument(f"update_mask {problem}", fields={"update_mask": problem})
    return "schedule" in paths


def _wrong(message: job_pb2.CreateJobRequest) -> dict[str, str]:
    """What is wrong with the fields that are no ids."""
    wrong = wrong_options(message.options)
    if not message.schedule.strip():
        wrong["schedule"] = "must say when the job runs"
    if not message.prompt.strip() and not is_script_only(message.options):
        wrong["prompt"] = "must say what the agent is to do"
    elif len(message.prompt.encode()) > _MAX_PROMPT_BYTES:
        wrong["prompt"] = f"must have at most {_MAX_PROMPT_BYTES} bytes"
    if len(message.name) > _MAX_NAME_CHARS:
        wrong["name"] = f"must have at most {_MAX_NAME_CHARS} characters"
    elif _NOT_IN_A_LINE.search(message.name):
        wrong["name"] = "must be one line, without control characters"
    if message.HasField("origin") and not (message.origin.platform and message.origin.chat_id):
        wrong["origin"] = "must name a platform and a chat, or be left out"
    for field, value in message.ListFields():
        if isinstance(value, str) and "\0" in value:
            wrong[field.name] = "must have no NUL character"
    if message.unattended not in _UNATTENDED_NAMES:
        wrong["unattended"] = "must be DENY, WAIT or HALT, or be left out"
    return wrong


def position_to_token(position: Position | None) -> str:
    """Return the token that continues a list after a position; empty at its end."""
    if position is None:
        return ""
    parts = [position.next_run_at.timestamp(), position.job_id]
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def position_of_token(token: str) -> Position | None:
    """Read a token that an earlier page gave; raises InvalidArgument."""
    if not token:
        return None
    try:
        timestamp, job_id = json.loads(base64.urlsafe_b64decode(token))
        return Position(datetime.fromtimestamp(timestamp, UTC), str(job_id))
    except (binascii.Error, ValueError, TypeError, OverflowError, OSError) as error:
        problem = "is not one that ListJobs has given"
        raise InvalidArgument(f"page_token {problem}", fields={"page_token": problem}) from error


def job_to_wire(job: Job) -> job_pb2.Job:
    """Return the message of a job."""
    last = job.last_run
    return job_pb2.Job(
        job_id=job.id,
        name=job.name,
        prompt=job.prompt,
        schedule=job.schedule_text,
        kind=kind_to_wire(job.schedule),
        time_zone=job.time_zone,
        state=_JOB_STATES[job.state],
        next_run_time=timestamp_to_wire(job.next_run_at),
        create_time=timestamp_to_wire(job.created_at),
        origin=origin_to_wire(job.origin) if job.origin else None,
        sandbox_template=job.sandbox_template,
        unattended=unattended_to_wire(job),
        options=options_to_wire(job.options),
        run_count=job.run_count,
        update_time=timestamp_to_wire(job.updated_at or job.created_at),
        last_run_time=timestamp_to_wire(last.scheduled_for) if last else None,
        last_run_state=state_to_wire(last.state) if last else run_pb2.RUN_STATE_UNSPECIFIED,
        last_error=last.error if last else "",
        last_delivery_error=last.delivery_error if last else "",
        denied_commands=job.denied,
        pause_reason=job.pause_reason,
    )


def unattended_to_wire(job: Job) -> "approval_pb2.UnattendedPolicy.ValueType":
    """Return what becomes of a job's calls that a person would have to allow."""
    return _UNATTENDED[job.unattended]


def script_to_wire(options: JobOptions) -> turn_pb2.TurnScript | None:
    """Return what a job's turns begin with, if anything."""
    if not options.script.strip():
        return None
    only = options.script_only
    mode = turn_pb2.SCRIPT_MODE_ONLY if only else turn_pb2.SCRIPT_MODE_GATE
    return turn_pb2.TurnScript(text=options.script, mode=mode)


def _name_of(prompt: str) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= _NAME_CHARS else words[: _NAME_CHARS - 1] + "…"


def check_job(job: Job) -> None:
    """Refuse what nobody could ask for by CreateJob; raises InvalidArgument."""
    message = job_to_wire(job)
    job_request(
        job_pb2.CreateJobRequest(
            job_id=message.job_id,
            profile=job.profile,
            schedule=message.schedule,
            time_zone=message.time_zone,
            prompt=message.prompt,
            name=message.name,
            origin=message.origin if message.HasField("origin") else None,
            sandbox_template=message.sandbox_template,
            unattended=message.unattended,
            options=message.options,
        )
    )


def file_of(message: files.ImportJobsRequest) -> JobFile:
    """Read what is to be taken."""
    return JobFile(
        profile=profile_of(message.profile),
        document=message.document,
        time_zone=message.time_zone,
        scripts=dict(message.scripts),
        is_paused=message.is_paused,
        dry_run=message.dry_run,
        closes_home=message.closes_home,
    )


def moved_to_wire(moved: Sequence[Moved]) -> files.ImportJobsResponse:
    """Return the message of what became of the jobs of a file."""
    return files.ImportJobsResponse(
        jobs=[
            files.ImportedJob(
                job_id=each.job_id, name=each.name, outcome=_outcome(each), notes=each.notes
            )
            for each in moved
        ]
    )


def _outcome(moved: Moved) -> "files.ImportOutcome.ValueType":
    if not moved.job_id:
        return files.IMPORT_OUTCOME_LEFT
    return files.IMPORT_OUTCOME_TAKEN if moved.is_new else files.IMPORT_OUTCOME_PRESENT
