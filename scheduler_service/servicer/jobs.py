"""JobService over gRPC."""

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.scheduler.v1 import job_file_pb2, job_pb2, job_pb2_grpc, run_pb2, schedule_pb2
from scheduler_service.clients import AgentClient, GatewayClient
from scheduler_service.home.importer import JobKeeper
from scheduler_service.home.mover import JobMover
from scheduler_service.jobs import Job, notes_on
from scheduler_service.servicer.catalog import JobCatalog
from scheduler_service.servicer.messages import (
    MAX_RUN_ID_CHARS,
    changed_spec,
    file_of,
    is_rescheduled,
    job_to_wire,
    position_of_token,
    position_to_token,
    profile_of,
    run_to_wire,
    spec_of,
)
from services.errors import InvalidArgument
from services.rpc.auth import Identity, allow
from services.rpc.messages import message_of
from services.validation import check_id, page_size

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import grpc.aio

    Context = grpc.aio.ServicerContext[Any, Any]

_CALLERS = (Identity.AGENT, Identity.GATEWAY, Identity.OPERATOR)
POLICY = {
    **allow(
        "hermes.scheduler.v1.JobService",
        dict.fromkeys(
            (
                *("CreateJob", "GetJob", "ListJobs", "UpdateJob", "PauseJob", "ResumeJob"),
                *("DeleteJob", "RunJob", "ListRuns", "GetRun", "WatchRun", "PreviewSchedule"),
                *("ImportJobs", "ExportJobs"),
            ),
            _CALLERS,
        ),
    ),
    **allow(
        "hermes.scheduler.v1.CuratorService",
        dict.fromkeys(
            (
                *("GetCurator", "RunCurator", "PauseCurator", "ResumeCurator"),
                *("ListReports", "RollBack"),
            ),
            (Identity.GATEWAY, Identity.OPERATOR),
        ),
    ),
    **allow(
        "hermes.scheduler.v1.BatchService",
        {
            **dict.fromkeys(
                ("CreateBatch", "GetBatch", "StopBatch", "ListItems"),
                (Identity.AGENT, Identity.OPERATOR),
            ),
            **dict.fromkeys(
                ("ListBatches", "WatchBatch", "ResumeBatch", "DeleteBatch"), (Identity.OPERATOR,)
            ),
        },
    ),
}

_JOBS_PER_PAGE = 100
_RUNS_PER_PAGE = 50
_DUE_TIMES = 5
_MAX_DUE_TIMES = 100


class JobServicer(job_pb2_grpc.JobServiceServicer):
    """Creates, shows, changes, runs and deletes jobs, and shows their runs."""

    def __init__(
        self,
        catalog: JobCatalog,
        mover: JobMover,
        scanner: AgentClient,
        gateway: GatewayClient,
        keeper: JobKeeper,
    ) -> None:
        """`keeper` knows whether another database keeps the jobs of a home."""
        self._catalog = catalog
        self._keeper = keeper
        self._mover = mover
        self._scanner = scanner
        self._gateway = gateway

    async def CreateJob(
        self, request: job_pb2.CreateJobRequest, context: "Context"
    ) -> job_pb2.CreateJobResponse:
        spec, profile = spec_of(request.job), profile_of(request.profile)
        is_paused = request.job.state == job_pb2.JOB_STATE_PAUSED
        await self._keeper.check(profile)
        job = await self._catalog.create(profile, request.job.job_id, spec, is_paused=is_paused)
        return job_pb2.CreateJobResponse(job=job_to_wire(job), notes=await self._notes(job))

    async def GetJob(
        self, request: job_pb2.GetJobRequest, context: "Context"
    ) -> job_pb2.GetJobResponse:
        job = await self._catalog.get(profile_of(request.profile), request.job_id)
        return job_pb2.GetJobResponse(job=job_to_wire(job))

    async def ListJobs(
        self, request: job_pb2.ListJobsRequest, context: "Context"
    ) -> job_pb2.ListJobsResponse:
        jobs, end = await self._catalog.page(
            profile_of(request.profile),
            page_size(request.page_size, _JOBS_PER_PAGE),
            position_of_token(request.page_token),
        )
        return job_pb2.ListJobsResponse(
            jobs=map(job_to_wire, jobs), next_page_token=position_to_token(end)
        )

    async def UpdateJob(
        self, request: job_pb2.UpdateJobRequest, context: "Context"
    ) -> job_pb2.UpdateJobResponse:
        anew = is_rescheduled(request)
        if request.request_id:
            check_id("request_id", request.request_id)
        change = partial(changed_spec, request)
        profile, job_id = profile_of(request.profile), request.job.job_id
        job = await self._catalog.update(
            profile, job_id, change, anew=anew, update_id=request.request_id
        )
        return job_pb2.UpdateJobResponse(job=job_to_wire(job), notes=await self._notes(job))

    async def _notes(self, job: Job) -> "Sequence[str]":
        targets, origin = job.spec.options.deliver_to, job.spec.origin
        unreachable = await self._gateway.find_unreachable(job.profile, targets, origin)
        return [*notes_on(job.spec), *unreachable]

    async def PauseJob(
        self, request: job_pb2.PauseJobRequest, context: "Context"
    ) -> job_pb2.PauseJobResponse:
        job = await self._catalog.pause(profile_of(request.profile), request.job_id)
        return job_pb2.PauseJobResponse(job=job_to_wire(job))

    async def ResumeJob(
        self, request: job_pb2.ResumeJobRequest, context: "Context"
    ) -> job_pb2.ResumeJobResponse:
        job = await self._catalog.resume(profile_of(request.profile), request.job_id)
        return job_pb2.ResumeJobResponse(job=job_to_wire(job))

    async def RunJob(
        self, request: run_pb2.RunJobRequest, context: "Context"
    ) -> run_pb2.RunJobResponse:
        check_id("run_id", request.run_id, MAX_RUN_ID_CHARS)
        profile = profile_of(request.profile)
        run = await self._catalog.run_now(profile, request.job_id, request.run_id)
        return run_pb2.RunJobResponse(run=run_to_wire(run))

    async def DeleteJob(
        self, request: job_pb2.DeleteJobRequest, context: "Context"
    ) -> job_pb2.DeleteJobResponse:
        await self._catalog.delete(profile_of(request.profile), request.job_id)
        return job_pb2.DeleteJobResponse()

    async def ListRuns(
        self, request: run_pb2.ListRunsRequest, context: "Context"
    ) -> run_pb2.ListRunsResponse:
        runs = await self._catalog.runs(
            profile_of(request.profile),
            request.job_id,
            page_size(request.page_size, _RUNS_PER_PAGE),
        )
        return run_pb2.ListRunsResponse(runs=map(run_to_wire, runs))

    async def GetRun(
        self, request: run_pb2.GetRunRequest, context: "Context"
    ) -> run_pb2.GetRunResponse:
        run = await self._catalog.run(profile_of(request.profile), request.run_id)
        return run_pb2.GetRunResponse(run=run_to_wire(run))

    async def WatchRun(
        self, request: run_pb2.WatchRunRequest, context: "Context"
    ) -> "AsyncGenerator[run_pb2.WatchRunResponse]":
        watched = self._catalog.watch(profile_of(request.profile), request.run_id)
        async with aclosing(watched) as states:
            async for run in states:
                yield run_pb2.WatchRunResponse(run=run_to_wire(run))

    async def PreviewSchedule(
        self, request: schedule_pb2.PreviewScheduleRequest, context: "Context"
    ) -> schedule_pb2.PreviewScheduleResponse:
        if not 0 <= request.count <= _MAX_DUE_TIMES:
            problem = f"must be 1 to {_MAX_DUE_TIMES}, or 0 for {_DUE_TIMES}"
            raise InvalidArgument(f"count {problem}", fields={"count": problem})
        return await self._catalog.preview(
            profile_of(request.profile),
            request.schedule,
            request.time_zone,
            request.count or _DUE_TIMES,
        )

    async def ImportJobs(
        self, request: job_file_pb2.ImportJobsRequest, context: "Context"
    ) -> job_file_pb2.ImportJobsResponse:
        file = file_of(request)
        if not file.dry_run:
            await (self._keeper.check if file.document else self._keeper.other)(file.profile)
        moved = await self._mover.take(file, self._scanner)
        jobs = [message_of(each, job_file_pb2.ImportedJob) for each in moved]
        return job_file_pb2.ImportJobsResponse(jobs=jobs)

    async def ExportJobs(
        self, request: job_file_pb2.ExportJobsRequest, context: "Context"
    ) -> job_file_pb2.ExportJobsResponse:
        document, count = await self._mover.give(profile_of(request.profile))
        return job_file_pb2.ExportJobsResponse(document=document, job_count=count)
