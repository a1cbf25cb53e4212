"""The scheduler's jobs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import Struct

from gateway_service.clients.calls import SCHEDULER_S, ChannelOf, of_scheduler
from gateway_service.errors import SchedulerRefused
from gateway_service.messages import Source
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_pb2, job_pb2_grpc, run_pb2, schedule_pb2
from services.errors import Reason

MAX_JOBS = 1000

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


class JobInfo(Struct, frozen=True):
    """A job, as a person is shown it."""

    job_id: str
    name: str
    prompt: str
    schedule: str
    time_zone: str
    state: str
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_run: str
    """How it ended; empty where there was none."""
    problem: str
    """Why it failed, or why its output could not be delivered."""
    destination: str
    pause_reason: str = ""
    """Why it is paused where nobody has asked for that; empty where somebody has."""


class NewJob(Struct, frozen=True):
    """A job to be stored."""

    job_id: str
    profile: str
    schedule: str
    prompt: str
    source: Source
    denied: Sequence[str] = ()
    """Slash commands that whoever asks for it may not say."""


class RunInfo(Struct, frozen=True):
    """A run of a job."""

    due_at: datetime
    state: str
    problem: str


class JobsClient:
    """Reads and changes jobs."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> job_pb2_grpc.JobServiceStub:
        return job_pb2_grpc.JobServiceStub(self._channel_of("scheduler"))

    async def due_times(self, schedule: str, profile: str) -> Sequence[datetime] | None:
        """When a schedule of a profile would be due next; None where it is no schedule."""
        request = schedule_pb2.PreviewScheduleRequest(schedule=schedule, count=1, profile=profile)
        try:
            found = await of_scheduler(self._stub.PreviewSchedule(request, timeout=SCHEDULER_S))
        except SchedulerRefused as error:
            if error.reason in (Reason.SCHEDULE_INVALID, Reason.INVALID_ARGUMENT):
                return None
            raise
        return [each.ToDatetime(UTC) for each in found.due_times]

    async def create(self, new: NewJob) -> JobInfo:
        """Store a job; the same again is one."""
        request = job_pb2.CreateJobRequest(
            job_id=new.job_id,
            profile=new.profile,
            schedule=new.schedule,
            prompt=new.prompt,
            origin=_origin(new.source),
            denied_commands=new.denied,
        )
        return _info((await of_scheduler(self._stub.CreateJob(request, timeout=SCHEDULER_S))).job)

    async def get(self, job_id: str, profile: str) -> JobInfo | None:
        """A job by its id."""
        request = job_pb2.GetJobRequest(job_id=job_id, profile=profile)
        try:
            return _info((await of_scheduler(self._stub.GetJob(request, timeout=SCHEDULER_S))).job)
        except SchedulerRefused as error:
            if error.reason is Reason.NOT_FOUND:
                return None
            raise

    async def all(self, profile: str) -> Sequence[JobInfo]:
        """A profile's jobs, the one due next first."""
        request = job_pb2.ListJobsRequest(profile=profile, page_size=MAX_JOBS)
        found = await of_scheduler(self._stub.ListJobs(request, timeout=SCHEDULER_S))
        return [_info(job) for job in found.jobs]

    async def runs(self, job_id: str, profile: str, most: int) -> Sequence[RunInfo]:
        """A job's last runs, the latest first."""
        request = run_pb2.ListRunsRequest(job_id=job_id, profile=profile, page_size=most)
        found = await of_scheduler(self._stub.ListRuns(request, timeout=SCHEDULER_S))
        return [
            RunInfo(
                run.scheduled_for.ToDatetime(UTC),
                _RUN_STATES.get(run.state, "under way"),
                run.error or run.delivery_error,
            )
            for run in found.runs
        ]

    async def pause(self, job_id: str, profile: str) -> JobInfo:
        """Let a job run no more."""
        request = job_pb2.PauseJobRequest(job_id=job_id, profile=profile)
        return _info((await of_scheduler(self._stub.PauseJob(request, timeout=SCHEDULER_S))).job)

    async def resume(self, job_id: str, profile: str) -> JobInfo:
        """Let it run again."""
        request = job_pb2.ResumeJobRequest(job_id=job_id, profile=profile)
        return _info((await of_scheduler(self._stub.ResumeJob(request, timeout=SCHEDULER_S))).job)

    async def run(self, job_id: str, profile: str, run_id: str) -> None:
        """Run it now, once for each run's id."""
        request = run_pb2.RunJobRequest(job_id=job_id, profile=profile, run_id=run_id)
        await of_scheduler(self._stub.RunJob(request, timeout=SCHEDULER_S))

    async def remove(self, job_id: str, profile: str) -> None:
        """Remove it."""
        request = job_pb2.DeleteJobRequest(job_id=job_id, profile=profile)
        await of_scheduler(self._stub.DeleteJob(request, timeout=SCHEDULER_S))


def _origin(source: Source) -> Origin:
    return Origin(
        platform=source.platform,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
        user_id=source.user_id,
        user_name=source.user_name,
        chat_type=source.chat_type,
        trust=TRUST_OWNER,
    )


def _info(job: job_pb2.Job) -> JobInfo:
    targets = [
        ":".join(filter(None, (each.platform, each.chat_id, each.thread_id)))
        for each in job.options.deliver_to
    ]
    origin = ":".join(filter(None, (job.origin.platform, job.origin.chat_id)))
    return JobInfo(
        job_id=job.job_id,
        name=job.name,
        prompt=job.prompt,
        schedule=job.schedule,
        time_zone=job.time_zone,
        state=_STATES.get(job.state, "unknown"),
        next_run_at=_moment(job.next_run_time),
        last_run_at=_moment(job.last_run_time),
        last_run=_RUN_STATES.get(job.last_run_state, ""),
        problem=job.last_error or job.last_delivery_error,
        destination=", ".join(targets) or origin or "nowhere; its output is kept",
        pause_reason=job.pause_reason,
    )


def _moment(time: Timestamp) -> datetime | None:
    return time.ToDatetime(UTC) if time.seconds else None
