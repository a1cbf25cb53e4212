"""CuratorService over gRPC; each request acts on the curator of its profile."""

from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.common.v1.curation_pb2 import CurationReport
from hermes.scheduler.v1 import curator_pb2 as pb
from hermes.scheduler.v1 import curator_pb2_grpc
from scheduler_service.clients import CurationClient
from scheduler_service.config import CuratorConfig
from scheduler_service.curation import Curation
from scheduler_service.jobs import Run
from scheduler_service.servicer.messages import MAX_RUN_ID_CHARS, profile_of
from scheduler_service.storage import curation, runs
from scheduler_service.storage.claims import CHANNEL
from services.clock import Clock
from services.database import Database
from services.errors import AlreadyExists, FailedPrecondition, NotFound
from services.rpc.messages import message_of
from services.validation import check_id, page_size

if TYPE_CHECKING:
    import grpc.aio

    Context = grpc.aio.ServicerContext[Any, Any]

_REPORTS_PER_PAGE = 20
_MAX_REPORTS = 100


class CuratorServicer(curator_pb2_grpc.CuratorServiceServicer):
    """Shows, runs, pauses and rolls back the curator."""

    def __init__(
        self, database: Database, libraries: CurationClient, clock: Clock, config: CuratorConfig
    ) -> None:
        self._database = database
        self._libraries = libraries
        self._clock = clock
        self._config = config

    async def GetCurator(
        self, request: pb.GetCuratorRequest, context: "Context"
    ) -> pb.GetCuratorResponse:
        return pb.GetCuratorResponse(curator=await self._standing(profile_of(request.profile)))

    async def PauseCurator(
        self, request: pb.PauseCuratorRequest, context: "Context"
    ) -> pb.PauseCuratorResponse:
        profile = profile_of(request.profile)
        await self._libraries.update(profile, is_paused=True)
        return pb.PauseCuratorResponse(curator=await self._standing(profile))

    async def ResumeCurator(
        self, request: pb.ResumeCuratorRequest, context: "Context"
    ) -> pb.ResumeCuratorResponse:
        profile = profile_of(request.profile)
        await self._libraries.update(profile, is_paused=False)
        return pb.ResumeCuratorResponse(curator=await self._standing(profile))

    async def RunCurator(
        self, request: pb.RunCuratorRequest, context: "Context"
    ) -> pb.RunCuratorResponse:
        """Begin a run, or return the one that the same request began."""
        check_id("run_id", request.run_id, MAX_RUN_ID_CHARS)
        profile, run_id = profile_of(request.profile), request.run_id
        run = await self._database.read(partial(runs.find_run, run_id=run_id))
        if run is None:
            found, now = await self._curation(profile), self._clock.now()
            begin = partial(curation.begin, found=found, run_id=run_id, now=now)
            run = await self._database.write(
                partial(begin, dry_run=request.dry_run), notify=CHANNEL
            )
        same = (curation.job_id_of(profile), request.dry_run)
        if run is None or (run.job_id, run.dry_run) != same:
            raise AlreadyExists(f"the run id {run_id} was used before for another run")
        return pb.RunCuratorResponse(run=_run_to_wire(run))

    async def ListReports(
        self, request: pb.ListReportsRequest, context: "Context"
    ) -> pb.ListReportsResponse:
        most = page_size(request.page_size, _REPORTS_PER_PAGE, _MAX_REPORTS)
        found = await self._curation(profile_of(request.profile))
        reports = await self._libraries.reports(found.profile, most)
        return pb.ListReportsResponse(reports=[message_of(it, CurationReport) for it in reports])

    async def RollBack(
        self, request: pb.RollBackRequest, context: "Context"
    ) -> pb.RollBackResponse:
        """Restore the library as it was before a run, and the skill names in jobs."""
        check_id("run_id", request.run_id)
        profile = profile_of(request.profile)
        await self._database.read(partial(curation.check_idle, profile=profile))
        report = await self._libraries.restore(profile, request.run_id, request.backup_id)
        backup_id = report.restored_backup_id
        if not backup_id:
            raise FailedPrecondition("nothing was restored under this id; roll back with a new one")
        # Only now: unless the library has its skills back, jobs must not name them.
        now = self._clock.now()
        undo = partial(curation.undo_names, profile=profile, backup_id=backup_id, now=now)
        await self._database.write(undo)
        return pb.RollBackResponse(report=message_of(report, CurationReport))

    async def _curation(self, profile: str) -> Curation:
        found = await self._libraries.curations(profile)
        if not found:
            raise NotFound(f"there is no profile {profile}")
        return found[0]

    async def _standing(self, profile: str) -> pb.Curator:
        found = await self._curation(profile)
        find = partial(runs.list_runs, job_id=curation.job_id_of(profile), limit=1)
        latest = next(iter(await self._database.read(find)), None)
        values: dict[str, Any] = {
            "is_enabled": self._config.enabled,
            "is_paused": found.is_paused,
            "last_run_time": found.last_run_time,
            "next_run_time": found.next_run_at(self._config),
            "run_count": found.run_count,
            "last_summary": found.last_summary,
            "last_report_path": found.last_report_path,
            "latest_run": latest and _run_to_wire(latest),
            "backup_ids": found.backup_ids,
        }
        return pb.Curator(**values)


def _run_to_wire(run: Run) -> pb.CuratorRun:
    report = curation.report_of(run.output) if run.finished_at else None
    values: dict[str, Any] = {
        "run_id": run.id,
        "dry_run": run.dry_run,
        "create_time": run.claimed_at,
        "finish_time": run.finished_at,
        "error": run.error,
        "report": report and message_of(report, CurationReport),
    }
    return pb.CuratorRun(**values)
