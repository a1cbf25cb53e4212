"""JobService over gRPC."""

from typing import TYPE_CHECKING

from hermes.scheduler.v1 import job_pb2, job_pb2_grpc
from scheduler_service import convert
from scheduler_service.catalog import JobCatalog
from services.auth import Identity, allow
from services.validation import page_size

if TYPE_CHECKING:
    from typing import Any

    import grpc.aio

    Context = grpc.aio.ServicerContext[Any, Any]

_CALLERS = (Identity.AGENT, Identity.GATEWAY, Identity.OPERATOR)
POLICY = allow(
    "hermes.scheduler.v1.JobService",
    dict.fromkeys(("CreateJob", "GetJob", "ListJobs", "DeleteJob", "ListRuns"), _CALLERS),
)

_JOBS_PER_PAGE = 100
_RUNS_PER_PAGE = 50


class JobServicer(job_pb2_grpc.JobServiceServicer):
    """Creates, shows and deletes jobs, and shows their runs."""

    def __init__(self, catalog: JobCatalog) -> None:
        self._catalog = catalog

    def register(self, server: "grpc.aio.Server") -> None:
        """Add the service to a server."""
        job_pb2_grpc.add_JobServiceServicer_to_server(self, server)

    async def CreateJob(
        self, request: job_pb2.CreateJobRequest, context: "Context"
    ) -> job_pb2.CreateJobResponse:
        """Store a job."""
        job = await self._catalog.create(convert.job_request(request))
        return job_pb2.CreateJobResponse(job=convert.job_to_wire(job))

    async def GetJob(
        self, request: job_pb2.GetJobRequest, context: "Context"
    ) -> job_pb2.GetJobResponse:
        """Return a job."""
        job = await self._catalog.get(convert.profile_of(request.profile), request.job_id)
        return job_pb2.GetJobResponse(job=convert.job_to_wire(job))

    async def ListJobs(
        self, request: job_pb2.ListJobsRequest, context: "Context"
    ) -> job_pb2.ListJobsResponse:
        """List a profile's jobs, the one due next first."""
        jobs, end = await self._catalog.page(
            convert.profile_of(request.profile),
            page_size(request.page_size, _JOBS_PER_PAGE),
            convert.position_of_token(request.page_token),
        )
        return job_pb2.ListJobsResponse(
            jobs=map(convert.job_to_wire, jobs), next_page_token=convert.position_to_token(end)
        )

    async def DeleteJob(
        self, request: job_pb2.DeleteJobRequest, context: "Context"
    ) -> job_pb2.DeleteJobResponse:
        """Let a job run no more."""
        await self._catalog.delete(convert.profile_of(request.profile), request.job_id)
        return job_pb2.DeleteJobResponse()

    async def ListRuns(
        self, request: job_pb2.ListRunsRequest, context: "Context"
    ) -> job_pb2.ListRunsResponse:
        """List a job's runs, the latest first."""
        runs = await self._catalog.runs(
            convert.profile_of(request.profile),
            request.job_id,
            page_size(request.page_size, _RUNS_PER_PAGE),
        )
        return job_pb2.ListRunsResponse(runs=map(convert.run_to_wire, runs))
