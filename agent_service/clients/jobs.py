"""Access to jobs through the scheduler."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.field_mask_pb2 import FieldMask

from agent_service.clients.patience import patiently
from agent_service.records.jobs import LOCAL, JobChange, JobView, SchedulerAway, SchedulerRefused
from agent_service.records.messages import ORIGIN, Target
from hermes.common.v1 import origin_pb2
from hermes.scheduler.v1 import job_options_pb2, job_pb2, job_pb2_grpc, run_pb2
from services import errors
from services.errors import FailedPrecondition, is_passing
from services.rpc.channels import Channels
from services.rpc.messages import message_of, record_of

CALL_S = 10.0
PATIENCE_S = 10.0
MOST = 1000

_T = TypeVar("_T")
_Stub = job_pb2_grpc.JobServiceStub

_OF_JOB = ("prompt", "schedule", "name")


class SchedulerJobs:
    """The scheduler's JobService as Jobs."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def create(
        self,
        profile: str,
        job_id: str,
        wish: JobChange,
        origin: Mapping[str, str] | None,
        denied: Sequence[str],
    ) -> JobView:
        asked_in = None if origin is None else _origin(origin)
        fields = _fields(wish) | {"job_id": job_id, "origin": asked_in, "denied_commands": denied}
        job = message_of(fields, job_pb2.Job)
        request = job_pb2.CreateJobRequest(job=job, profile=profile)
        answer = await self._ask(lambda stub: stub.CreateJob(request, timeout=CALL_S))
        return _view(answer.job, answer.notes)

    async def list(self, profile: str) -> Sequence[JobView]:
        request = job_pb2.ListJobsRequest(profile=profile, page_size=MOST)
        answer = await self._ask(lambda stub: stub.ListJobs(request, timeout=CALL_S))
        return [_view(job) for job in answer.jobs]

    async def get(self, profile: str, job_id: str) -> JobView:
        request = job_pb2.GetJobRequest(profile=profile, job_id=job_id)
        answer = await self._ask(lambda stub: stub.GetJob(request, timeout=CALL_S))
        return _view(answer.job)

    async def update(
        self, profile: str, job_id: str, wish: JobChange, request_id: str, denied: Sequence[str]
    ) -> JobView:
        fields = _fields(wish)
        paths = [*fields, *(["options.script_mode"] if wish.script == "" else [])]
        request = job_pb2.UpdateJobRequest(
            job=message_of(fields, job_pb2.Job, job_id=job_id),
            profile=profile,
            update_mask=FieldMask(paths=list(dict.fromkeys(paths))),
            request_id=request_id,
            denied_commands=denied,
        )
        answer = await self._ask(lambda stub: stub.UpdateJob(request, timeout=CALL_S))
        return _view(answer.job, answer.notes)

    async def take(self, profile: str, job_id: str, action: str) -> None:
        its = {"profile": profile, "job_id": job_id}
        calls: Mapping[str, Callable[[_Stub], Awaitable[object]]] = {
            "pause": lambda stub: stub.PauseJob(job_pb2.PauseJobRequest(**its), timeout=CALL_S),
            "resume": lambda stub: stub.ResumeJob(job_pb2.ResumeJobRequest(**its), timeout=CALL_S),
            "remove": lambda stub: stub.DeleteJob(job_pb2.DeleteJobRequest(**its), timeout=CALL_S),
        }
        await self._ask(calls[action])

    async def run(self, profile: str, job_id: str, run_id: str) -> None:
        request = run_pb2.RunJobRequest(profile=profile, job_id=job_id, run_id=run_id)
        await self._ask(lambda stub: stub.RunJob(request, timeout=CALL_S))

    async def _ask(self, call: Callable[[_Stub], Awaitable[_T]]) -> _T:
        return await ask_scheduler(lambda: call(_Stub(self._channels.to("scheduler"))))


async def ask_scheduler(call: Callable[[], Awaitable[_T]]) -> _T:
    """Make a repeatable call; raises SchedulerRefused or SchedulerAway."""
    try:
        return await patiently(call, PATIENCE_S)
    except FailedPrecondition as error:
        raise SchedulerRefused(error.message) from error
    except grpc.aio.AioRpcError as error:
        if is_passing(error) or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise SchedulerAway from error
        raise SchedulerRefused(errors.message_of(error)) from error


def _view(job: job_pb2.Job, notes: Iterable[str] = ()) -> JobView:
    options = job.options
    told = options.deliver_to or [ORIGIN]
    home = _chat(job.origin) if job.origin.platform and job.origin.chat_id else None
    return record_of(
        job,
        JobView,
        id=job.job_id,
        error=job.last_error or job.last_delivery_error,
        deliver_to=[str(home or LOCAL) if each == ORIGIN else each for each in told],
        wish=_wish(options),
        changed_at=job.update_time.ToDatetime(UTC),
        home=home,
        notes=list(notes),
    )


def _fields(wish: JobChange) -> dict[str, Any]:
    named = {name: getattr(wish, name) for name in JobChange.__struct_fields__}
    if wish.script == "":
        named["script_mode"] = None
    return {
        name if name in _OF_JOB else f"options.{name}": value
        for name, value in named.items()
        if value is not None
    }


def _wish(options: job_options_pb2.JobOptions) -> JobChange:
    wished = job_options_pb2.JobOptions()
    wished.CopyFrom(options)
    del wished.deliver_to[:]
    return record_of(wished, JobChange)


def _chat(place: origin_pb2.Origin) -> Target:
    return Target(place.platform, place.chat_id, place.thread_id)


def _origin(origin: Mapping[str, str]) -> origin_pb2.Origin:
    fields = origin_pb2.Origin.DESCRIPTOR.fields_by_name
    return message_of({name: origin.get(name) for name in fields}, origin_pb2.Origin)
