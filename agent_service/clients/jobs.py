"""The scheduler, which runs jobs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
import grpc.aio

from agent_service.clients.patience import patiently
from agent_service.convert import jobs
from agent_service.jobs import Change, JobRefused, JobView, NewJob, NoSuchJob, SchedulerAway, Step
from hermes.scheduler.v1 import job_pb2, job_pb2_grpc, run_pb2
from services.channels import Channels
from services.errors import FailedPrecondition, is_passing, message_of

CALL_S = 10.0
PATIENCE_S = 10.0
MOST = 1000

_T = TypeVar("_T")
_Stub = job_pb2_grpc.JobServiceStub


class SchedulerJobs:
    """Jobs by way of the scheduler's JobService."""

    def __init__(self, channels: Channels, patience_s: float = PATIENCE_S) -> None:
        self._channels = channels
        self._patience_s = patience_s

    async def create(self, new: NewJob) -> JobView:
        """Store a job."""
        request = jobs.create_request(new)
        answer = await self._ask(lambda stub: stub.CreateJob(request, timeout=CALL_S))
        return jobs.view(answer.job, answer.notes)

    async def list(self, profile: str) -> Sequence[JobView]:
        """The jobs, the one due next first."""
        request = job_pb2.ListJobsRequest(profile=profile, page_size=MOST)
        answer = await self._ask(lambda stub: stub.ListJobs(request, timeout=CALL_S))
        return [jobs.view(job) for job in answer.jobs]

    async def get(self, profile: str, job_id: str) -> JobView:
        """A job."""
        request = job_pb2.GetJobRequest(profile=profile, job_id=job_id)
        answer = await self._ask(lambda stub: stub.GetJob(request, timeout=CALL_S))
        return jobs.view(answer.job)

    async def update(self, profile: str, job_id: str, change: Change) -> JobView:
        """Change a job."""
        request = jobs.update_request(profile, job_id, change)
        answer = await self._ask(lambda stub: stub.UpdateJob(request, timeout=CALL_S))
        return jobs.view(answer.job, answer.notes)

    async def take(self, profile: str, job_id: str, step: Step) -> None:
        """Pause, resume or remove a job."""
        named = {"profile": profile, "job_id": job_id}
        match step:
            case Step.PAUSE:
                pause = job_pb2.PauseJobRequest(**named)
                await self._ask(lambda stub: stub.PauseJob(pause, timeout=CALL_S))
            case Step.RESUME:
                resume = job_pb2.ResumeJobRequest(**named)
                await self._ask(lambda stub: stub.ResumeJob(resume, timeout=CALL_S))
            case Step.REMOVE:
                delete = job_pb2.DeleteJobRequest(**named)
                await self._ask(lambda stub: stub.DeleteJob(delete, timeout=CALL_S))

    async def run(self, profile: str, job_id: str, run_id: str) -> None:
        """Begin a run now, once for each id."""
        request = run_pb2.RunJobRequest(profile=profile, job_id=job_id, run_id=run_id)
        await self._ask(lambda stub: stub.RunJob(request, timeout=CALL_S))

    async def _ask(self, call: Callable[[_Stub], Awaitable[_T]]) -> _T:
        """Do what may be done twice."""
        try:
            stub = _Stub(self._channels.to("scheduler"))
            return await patiently(lambda: call(stub), self._patience_s)
        except FailedPrecondition as error:
            raise JobRefused(error.message) from error
        except grpc.aio.AioRpcError as error:
            if is_passing(error) or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise SchedulerAway from error
            missing = error.code() is grpc.StatusCode.NOT_FOUND
            raise (NoSuchJob if missing else JobRefused)(message_of(error)) from error
