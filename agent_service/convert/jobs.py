"""Jobs of the scheduler on the wire."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from agent_service.jobs import LOCAL, Change, JobState, JobView, NewJob, Wish
from agent_service.messaging import ORIGIN, Target
from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import job_options_pb2, job_pb2

_STATES = {
    job_pb2.JOB_STATE_COMPLETED: JobState.COMPLETED,
    job_pb2.JOB_STATE_PAUSED: JobState.PAUSED,
}
_TRUST = {"owner": origin_pb2.TRUST_OWNER, "service": origin_pb2.TRUST_SERVICE}
_OF_JOB = ("prompt", "schedule", "name")
_SIMPLE_OPTIONS = (
    *("skills", "model", "script", "context_job_ids", "toolsets", "workdir", "max_runs"),
)


def create_request(new: NewJob) -> job_pb2.CreateJobRequest:
    """The request that stores a job."""
    job = _job(new.wish)
    job.job_id = new.id
    job.denied_commands.extend(new.denied)
    if new.origin is not None:
        job.origin.CopyFrom(_origin(new.origin))
    return job_pb2.CreateJobRequest(job=job, profile=new.profile)


def update_request(profile: str, job_id: str, change: Change) -> job_pb2.UpdateJobRequest:
    """The request that changes of a job what is wished for."""
    job = _job(change.wish)
    job.job_id = job_id
    return job_pb2.UpdateJobRequest(
        job=job,
        profile=profile,
        update_mask=FieldMask(paths=list(_paths(change.wish))),
        request_id=change.id,
        denied_commands=change.denied,
    )


def view(job: job_pb2.Job, notes: Iterable[str] = ()) -> JobView:
    """A job as it is."""
    options = job.options
    told = tuple(map(_told, options.deliver_to)) or (ORIGIN,)
    home = Target.of_origin(_place(job.origin)) if job.HasField("origin") else None
    return JobView(
        id=job.job_id,
        name=job.name,
        prompt=job.prompt,
        schedule=job.schedule,
        time_zone=job.time_zone,
        state=_STATES.get(job.state, JobState.SCHEDULED),
        next_run_at=_moment(job.next_run_time) if job.HasField("next_run_time") else None,
        last_run_at=_moment(job.last_run_time) if job.HasField("last_run_time") else None,
        error=job.last_error or job.last_delivery_error,
        deliver_to=tuple(str(home or LOCAL) if each == ORIGIN else each for each in told),
        run_count=job.run_count,
        wish=Wish(
            max_runs=options.max_runs or None,
            skills=tuple(options.skills) or None,
            model=options.model or None,
            script=options.script or None,
            script_only=options.script_mode == job_options_pb2.SCRIPT_MODE_ONLY or None,
            context_job_ids=tuple(options.context_job_ids) or None,
            toolsets=tuple(options.toolsets) or None,
            workdir=options.workdir or None,
        ),
        changed_at=_moment(job.update_time),
        home=home,
        pause_reason=job.pause_reason,
        notes=tuple(notes),
    )


def _job(wish: Wish) -> job_pb2.Job:
    job = job_pb2.Job(
        prompt=wish.prompt or "",
        schedule=wish.schedule or "",
        name=wish.name or "",
        options=job_options_pb2.JobOptions(
            skills=wish.skills or (),
            model=wish.model or "",
            script=wish.script or "",
            context_job_ids=wish.context_job_ids or (),
            toolsets=wish.toolsets or (),
            workdir=wish.workdir or "",
            max_runs=wish.max_runs or 0,
            deliver_to=map(_target, wish.deliver_to or ()),
        ),
    )
    if wish.script_only is not None and wish.script != "":
        only = wish.script_only
        modes = job_options_pb2.SCRIPT_MODE_GATE, job_options_pb2.SCRIPT_MODE_ONLY
        job.options.script_mode = modes[only]
    return job


def _paths(wish: Wish) -> Iterator[str]:
    yield from (name for name in _OF_JOB if getattr(wish, name) is not None)
    yield from (f"options.{name}" for name in _SIMPLE_OPTIONS if getattr(wish, name) is not None)
    if wish.deliver_to is not None:
        yield "options.deliver_to"
    if wish.script_only is not None or wish.script == "":
        yield "options.script_mode"


def _target(target: Target | str) -> job_options_pb2.DeliveryTarget:
    if isinstance(target, str):
        return job_options_pb2.DeliveryTarget(platform=target)
    return job_options_pb2.DeliveryTarget(
        platform=target.platform, chat_id=target.chat_id, thread_id=target.thread_id
    )


def _told(target: job_options_pb2.DeliveryTarget) -> str:
    return ":".join(filter(None, (target.platform, target.chat_id, target.thread_id)))


def _place(origin: origin_pb2.Origin) -> dict[str, str]:
    return {
        "platform": origin.platform,
        "chat_id": origin.chat_id,
        "thread_id": origin.thread_id,
    }


def _origin(origin: Mapping[str, str]) -> origin_pb2.Origin:
    return origin_pb2.Origin(
        platform=origin["platform"],
        chat_id=origin.get("chat_id", ""),
        thread_id=origin.get("thread_id", ""),
        user_id=origin.get("user_id", ""),
        user_name=origin.get("user_name", ""),
        chat_type=origin.get("chat_type", ""),
        trust=_TRUST.get(origin.get("trust", ""), origin_pb2.TRUST_UNTRUSTED),
    )


def _moment(time: Timestamp) -> datetime:
    return time.ToDatetime(UTC)
