"""Which job or run somebody means: by its id, the beginning of it, or the job's name."""

from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

import grpc
import grpc.aio

from hermes.scheduler.v1 import job_pb2, run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.errors import InvalidArgument, NotFound

PAGE = 1000
KEPT_RUNS = 50
LATEST = "latest"
_SHOWN = 5
_PREFIX = "job_"

_T = TypeVar("_T")


class Jobs:
    """The jobs of one profile."""

    def __init__(self, stub: JobServiceStub, profile: str) -> None:
        self.stub = stub
        self.profile = profile

    async def find(self, text: str) -> job_pb2.Job:
        """The job that is meant; NotFound or InvalidArgument says why none is."""
        try:
            request = job_pb2.GetJobRequest(job_id=text, profile=self.profile)
            return (await self.stub.GetJob(request)).job
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
        found = [job async for job in self.all()]
        named = [job for job in found if job.name.casefold() == text.casefold()]
        begun = [job for job in found if job.job_id.startswith((text, f"{_PREFIX}{text}"))]
        return _only(named or begun, text, [f"{job.job_id} ({job.name})" for job in named or begun])

    async def all(self) -> AsyncGenerator[job_pb2.Job]:
        """Every job, the one due next first."""
        token = ""
        while True:
            request = job_pb2.ListJobsRequest(
                profile=self.profile, page_size=PAGE, page_token=token
            )
            page = await self.stub.ListJobs(request)
            for job in page.jobs:
                yield job
            if not (token := page.next_page_token):
                return

    async def runs(self, job_id: str, most: int = KEPT_RUNS) -> Sequence[run_pb2.Run]:
        """The runs of a job, the latest first."""
        request = run_pb2.ListRunsRequest(job_id=job_id, profile=self.profile, page_size=most)
        return (await self.stub.ListRuns(request)).runs

    async def find_run(self, job: job_pb2.Job, text: str) -> run_pb2.Run:
        """The run of a job that is meant."""
        runs = await self.runs(job.job_id)
        if text == LATEST and runs:
            return runs[0]
        found = [run for run in runs if run.run_id == text] or [
            run for run in runs if run.run_id.startswith((text, f"run_{text}"))
        ]
        if not found:
            raise NotFound(f"job {job.job_id} has no run {text}; see hermes jobs runs {job.job_id}")
        return _only(found, text, [run.run_id for run in found])


def _only(found: Sequence[_T], text: str, shown: Sequence[str]) -> _T:
    if not found:
        raise NotFound(f"there is no job {text}; see hermes jobs list")
    if len(found) > 1:
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        listed = f"{', '.join(shown[:_SHOWN])}{more}"
        raise InvalidArgument(f"{text!r} may mean {listed}; say more of the id")
    return found[0]
