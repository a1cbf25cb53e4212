"""Conversions between messages and records of jobs and runs."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec.structs import replace

from hermes.scheduler.v1 import job_file_pb2, job_options_pb2, job_pb2, run_pb2
from hermes.scheduler.v1.job_options_pb2 import SCRIPT_MODE_ONLY
from scheduler_service.home.mover import JobFile
from scheduler_service.jobs import Job, JobSpec, Run, session_id_of, turn_id_of
from scheduler_service.options import LOCAL
from scheduler_service.storage.jobs import Position
from services.errors import InvalidArgument
from services.home.paths import DEFAULT_PROFILE
from services.rpc.messages import message_of, record_of
from services.validation import check_id, decode, denied_commands

MAX_RUN_ID_CHARS = 80
"""Leaves room for the suffixes of later attempts and deliveries."""


def profile_of(name: str) -> str:
    """Return the profile that an empty field means."""
    return name or DEFAULT_PROFILE


def run_to_wire(run: Run) -> run_pb2.Run:
    """Return the message of a run."""
    attempt = run.attempt
    has_turn = attempt.started_at is not None
    session_id = session_id_of(run.job_id, run.id, run.scheduled_for, attempt)
    values = {
        "run_id": run.id,
        "job_id": run.job_id,
        "scheduled_for": run.scheduled_for,
        "state": run.state,
        "claim_time": run.claimed_at,
        "finish_time": run.finished_at,
        "output": run.output,
        "error": run.error,
        "attempt": attempt.number,
        "not_before_time": attempt.not_before,
        "start_time": attempt.started_at,
        "is_requested": run.is_requested,
        "is_silent": run.is_silent,
        "delivery_error": run.delivery_error,
        "turn_id": turn_id_of(run.id, attempt.number) if has_turn else "",
        "session_id": session_id if has_turn else "",
    }
    return message_of(values, run_pb2.Run)


_MAX_TARGET_CHARS = 255
_MAX_PROMPT_BYTES = 64 * 1024
_NAME_CHARS = 60
_MAX_NAME_CHARS = 200
_MAX_TEMPLATE_CHARS = 64
_MAX_SCRIPT_BYTES = 64 * 1024
_DAY_S = 86_400
_DURATIONS_S = {
    "missed_run_grace": (0, 366 * _DAY_S),
    "jitter": (0, _DAY_S),
    "timeout": (1, 7 * _DAY_S),
    "retry_backoff": (1, _DAY_S),
}
_NOT_IN_A_LINE = re.compile("[\x01-\x1f\x7f-\x9f\u2028\u2029]")

_CHANGEABLE = (
    *("name", "prompt", "schedule", "time_zone", "origin"),
    *("sandbox_template", "unattended", "options", "denied_commands"),
)


def spec_of(job: job_pb2.Job) -> JobSpec:
    """Read and check a requested job; raises InvalidArgument."""
    check_id("job_id", job.job_id)
    if job.sandbox_template:
        check_id("sandbox_template", job.sandbox_template, _MAX_TEMPLATE_CHARS)
    if wrong := _wrong(job):
        text = "; ".join(f"{field} {problem}" for field, problem in wrong.items())
        raise InvalidArgument(text, fields=wrong)
    try:
        spec = record_of(job, JobSpec)
    except msgspec.ValidationError as error:
        # For example "Expected `int` >= 0 - at `$.options.max_runs`".
        problem, _, field = str(error).partition(" - at `$.")
        field = field.rstrip("`")
        raise InvalidArgument(f"{field}: {problem}", fields={field: problem}) from None
    return replace(
        spec,
        name=job.name or _name_of(job.prompt or job.options.script),
        denied_commands=denied_commands(job.denied_commands),
        pause_reason="",
    )


def changed_spec(update: job_pb2.UpdateJobRequest, before: Job) -> JobSpec:
    """Read and check a changed job; raises InvalidArgument."""
    after, asked, paths = job_to_wire(before), job_pb2.Job(), update.update_mask.paths
    asked.CopyFrom(update.job)
    # MergeFrom ignores the fields of an absent message.
    asked.options.SetInParent()
    update.update_mask.MergeMessage(asked, after, True, True)
    if before.spec.name == _name_of(before.spec.prompt) and "name" not in paths:
        after.name = ""
    # An update can add denied commands, never lift them.
    if update.denied_commands:
        after.denied_commands.extend([*update.denied_commands, *before.spec.denied_commands])
    return replace(spec_of(after), pause_reason=before.spec.pause_reason)


def is_rescheduled(update: job_pb2.UpdateJobRequest) -> bool:
    """Check the update mask; return whether it contains the schedule."""
    paths = update.update_mask.paths
    wrong = [path for path in paths if path.partition(".")[0] not in _CHANGEABLE]
    if wrong or not paths or not update.update_mask.IsValidForDescriptor(job_pb2.Job.DESCRIPTOR):
        problem = f"must have one or more of {', '.join(_CHANGEABLE)} and fields of the options"
        raise InvalidArgument(f"update_mask {problem}", fields={"update_mask": problem})
    return "schedule" in paths


def _wrong(message: job_pb2.Job) -> dict[str, str]:
    options, wrong = message.options, _wrong_options(message.options)
    is_script_only = options.script.strip() and options.script_mode == SCRIPT_MODE_ONLY
    if not message.schedule.strip():
        wrong["schedule"] = "must say when the job runs"
    if not message.prompt.strip() and not is_script_only:
        wrong["prompt"] = "must say what the agent is to do"
    elif len(message.prompt.encode()) > _MAX_PROMPT_BYTES:
        wrong["prompt"] = f"must have at most {_MAX_PROMPT_BYTES} bytes"
    if len(message.name) > _MAX_NAME_CHARS:
        wrong["name"] = f"must have at most {_MAX_NAME_CHARS} characters"
    elif _NOT_IN_A_LINE.search(message.name):
        wrong["name"] = "must be one line, without control characters"
    if message.HasField("origin") and not (message.origin.platform and message.origin.chat_id):
        wrong["origin"] = "must name a platform and a chat, or be left out"
    for prefix, holder in (("", message), ("options.", options)):
        for field, value in holder.ListFields():
            if isinstance(value, str) and "\0" in value:
                wrong[f"{prefix}{field.name}"] = "must have no NUL character"
    return wrong


def _wrong_options(options: job_options_pb2.JobOptions) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for field, given in options.ListFields():
        least, most = _DURATIONS_S.get(field.name, (0, 0))
        if most and (given.nanos or not least <= given.seconds <= most):
            wrong[f"options.{field.name}"] = f"must be {least} to {most} seconds, whole ones"
    if len(options.script.encode()) > _MAX_SCRIPT_BYTES:
        wrong["options.script"] = f"must have at most {_MAX_SCRIPT_BYTES} bytes"
    if options.script_mode and not options.script.strip():
        wrong["options.script"] = "must say what to run, where it is said what it is for"
    if options.workdir[:1] not in ("", "/"):
        wrong["options.workdir"] = "must be an absolute path"
    for target in options.deliver_to:
        if not target.strip() or len(target) > _MAX_TARGET_CHARS or "\0" in target:
            wrong["options.deliver_to"] = 'must each be a target such as "telegram" or "origin"'
        elif target == LOCAL and len(options.deliver_to) > 1:
            wrong["options.deliver_to"] = 'must have nothing else beside "local"'
    return wrong


def position_to_token(position: Position | None) -> str:
    """Return the page token for a position; empty at the end."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode() if position else ""


def position_of_token(token: str) -> Position | None:
    """Read a page token; raises InvalidArgument."""
    try:
        return decode(urlsafe_b64decode(token), Position) if token else None
    except ValueError as error:
        problem = "is not one that ListJobs has given"
        raise InvalidArgument(f"page_token {problem}", fields={"page_token": problem}) from error


def job_to_wire(job: Job) -> job_pb2.Job:
    """Return the message of a job."""
    last = job.last_run
    message = message_of(
        replace(job.spec, pause_reason=job.pause_reason),
        job_pb2.Job,
        job_id=job.id,
        kind=job.schedule.kind,
        state=job.state,
        next_run_time=job.next_run_at,
        create_time=job.created_at,
        run_count=job.run_count,
        update_time=job.updated_at or job.created_at,
    )
    if last is not None:
        message.last_run_time.FromDatetime(last.scheduled_for)
        message.last_run_state = run_pb2.RunState.Value(f"RUN_STATE_{last.state}")
        message.last_error, message.last_delivery_error = last.error, last.delivery_error
    return message


def _name_of(prompt: str) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= _NAME_CHARS else words[: _NAME_CHARS - 1] + "…"


def check_job(job: Job) -> None:
    """Reject a job that CreateJob would reject; raises InvalidArgument."""
    spec_of(job_to_wire(job))


def file_of(message: job_file_pb2.ImportJobsRequest) -> JobFile:
    """Read an import request."""
    own = {"profile": profile_of(message.profile), "document": message.document}
    return record_of(message, JobFile, scripts=dict(message.scripts), **own)
