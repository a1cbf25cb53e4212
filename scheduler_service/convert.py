"""Between the messages of the wire and the scheduler's own types."""

import base64
import binascii
import json
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1 import approval_pb2, origin_pb2
from hermes.scheduler.v1 import job_pb2
from scheduler_service.catalog import JobRequest
from scheduler_service.jobs import Job, JobState, Origin, Run, RunState
from scheduler_service.storage.jobs import Position
from services.errors import InvalidArgument
from services.home import DEFAULT_PROFILE
from services.validation import check_id

_MAX_PROMPT_BYTES = 64 * 1024
_NAME_CHARS = 60
_MAX_NAME_CHARS = 200
_MAX_TEMPLATE_CHARS = 64

_KINDS = {
    "once": job_pb2.SCHEDULE_KIND_ONCE,
    "interval": job_pb2.SCHEDULE_KIND_INTERVAL,
    "cron": job_pb2.SCHEDULE_KIND_CRON,
}
_UNATTENDED = {
    "": approval_pb2.UNATTENDED_POLICY_UNSPECIFIED,
    "deny": approval_pb2.UNATTENDED_POLICY_DENY,
    "wait": approval_pb2.UNATTENDED_POLICY_WAIT,
    "halt": approval_pb2.UNATTENDED_POLICY_HALT,
}
_UNATTENDED_NAMES = {number: name for name, number in _UNATTENDED.items()}
_JOB_STATES = {
    JobState.SCHEDULED: job_pb2.JOB_STATE_SCHEDULED,
    JobState.COMPLETED: job_pb2.JOB_STATE_COMPLETED,
}
_RUN_STATES = {
    RunState.CLAIMED: job_pb2.RUN_STATE_CLAIMED,
    RunState.RUNNING: job_pb2.RUN_STATE_RUNNING,
    RunState.DELIVERING: job_pb2.RUN_STATE_DELIVERING,
    RunState.SUCCEEDED: job_pb2.RUN_STATE_SUCCEEDED,
    RunState.FAILED: job_pb2.RUN_STATE_FAILED,
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
        name=message.name or _name_of(message.prompt),
        prompt=message.prompt,
        schedule=message.schedule,
        time_zone=message.time_zone,
        origin=_origin_of(message.origin) if message.HasField("origin") else None,
        sandbox_template=message.sandbox_template,
        unattended=_UNATTENDED_NAMES[message.unattended],
    )


def _wrong(message: job_pb2.CreateJobRequest) -> dict[str, str]:
    """What is wrong with the fields that are no ids."""
    wrong: dict[str, str] = {}
    if not message.schedule.strip():
        wrong["schedule"] = "must say when the job runs"
    if not message.prompt.strip():
        wrong["prompt"] = "must say what the agent is to do"
    elif len(message.prompt.encode()) > _MAX_PROMPT_BYTES:
        wrong["prompt"] = f"must have at most {_MAX_PROMPT_BYTES} bytes"
    if len(message.name) > _MAX_NAME_CHARS:
        wrong["name"] = f"must have at most {_MAX_NAME_CHARS} characters"
    if message.HasField("origin") and not (message.origin.platform and message.origin.chat_id):
        wrong["origin"] = "must name a platform and a chat, or be left out"
    for field, value in message.ListFields():
        if isinstance(value, str) and "\0" in value:
            wrong[field.name] = "must have no NUL character"
    if message.unattended not in _UNATTENDED_NAMES:
        wrong["unattended"] = "must be DENY, WAIT or HALT, or be left out"
    return wrong


def profile_of(name: str) -> str:
    """Return the profile that an empty field means."""
    return name or DEFAULT_PROFILE


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
    return job_pb2.Job(
        job_id=job.id,
        name=job.name,
        prompt=job.prompt,
        schedule=job.schedule_text,
        kind=_KINDS[job.schedule.kind],
        time_zone=job.time_zone,
        state=_JOB_STATES[job.state],
        next_run_time=_timestamp(job.next_run_at),
        create_time=_timestamp(job.created_at),
        origin=origin_to_wire(job.origin) if job.origin else None,
        sandbox_template=job.sandbox_template,
        unattended=unattended_to_wire(job),
    )


def unattended_to_wire(job: Job) -> "approval_pb2.UnattendedPolicy.ValueType":
    """Return what becomes of a job's calls that a person would have to allow."""
    return _UNATTENDED[job.unattended]


def run_to_wire(run: Run) -> job_pb2.Run:
    """Return the message of a run."""
    return job_pb2.Run(
        run_id=run.id,
        job_id=run.job_id,
        scheduled_for=_timestamp(run.scheduled_for),
        state=_RUN_STATES[run.state],
        claim_time=_timestamp(run.claimed_at),
        finish_time=_timestamp(run.finished_at),
        output=run.output,
        error=run.error,
    )


def origin_to_wire(
    origin: Origin, trust: origin_pb2.Trust.ValueType = origin_pb2.TRUST_UNSPECIFIED
) -> origin_pb2.Origin:
    """Return the message of an origin."""
    return origin_pb2.Origin(
        platform=origin.platform,
        chat_id=origin.chat_id,
        thread_id=origin.thread_id,
        user_id=origin.user_id,
        user_name=origin.user_name,
        chat_type=origin.chat_type,
        trust=trust,
    )


def _origin_of(message: origin_pb2.Origin) -> Origin:
    return Origin(
        platform=message.platform,
        chat_id=message.chat_id,
        thread_id=message.thread_id,
        user_id=message.user_id,
        user_name=message.user_name,
        chat_type=message.chat_type,
    )


def _name_of(prompt: str) -> str:
    words = " ".join(prompt.split())
    return words if len(words) <= _NAME_CHARS else words[: _NAME_CHARS - 1] + "…"


def _timestamp(at: datetime | None) -> Timestamp | None:
    if at is None:
        return None
    message = Timestamp()
    message.FromDatetime(at)
    return message
