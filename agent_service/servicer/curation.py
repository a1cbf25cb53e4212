"""CurationService."""

from datetime import timedelta

from agent_service.assembly.curation import Curations, CurationStatus
from agent_service.profiles.curation.curation import Order
from agent_service.profiles.curation.drafts import Ages
from agent_service.profiles.curation.reports import Report
from agent_service.servicer.fields import Context, profile_of
from hermes.agent.v1 import curation_pb2 as pb
from hermes.agent.v1.curation_pb2_grpc import CurationServiceServicer
from hermes.common.v1 import curation_pb2 as report_pb2
from services.errors import InvalidArgument
from services.rpc.messages import message_of
from services.validation import check_id, page_size

REPORTS_PER_PAGE, MAX_REPORTS = 20, 100


class CurationServicer(CurationServiceServicer):
    """Serves the scheduler's curator."""

    def __init__(self, curations: Curations) -> None:
        self._curations = curations

    async def ListCurations(
        self, request: pb.ListCurationsRequest, context: Context
    ) -> pb.ListCurationsResponse:
        found = await self._curations.standings(request.profile)
        return pb.ListCurationsResponse(curations=map(_curation, found))

    async def UpdateCuration(
        self, request: pb.UpdateCurationRequest, context: Context
    ) -> pb.UpdateCurationResponse:
        profile = profile_of(request.profile)
        is_paused = request.is_paused if request.HasField("is_paused") else None
        async with self._curations.opened(profile) as curation:
            await curation.update(is_paused=is_paused, begins=request.begins)
        (standing,) = await self._curations.standings(profile)
        return pb.UpdateCurationResponse(curation=_curation(standing))

    async def PlanConsolidation(
        self, request: pb.PlanConsolidationRequest, context: Context
    ) -> pb.PlanConsolidationResponse:
        plan = await self._curations.plan(
            profile_of(request.profile), _ages(request.ages), set(request.job_skills)
        )
        return pb.PlanConsolidationResponse(plan=plan)

    async def ApplyCuration(
        self, request: pb.ApplyCurationRequest, context: Context
    ) -> pb.ApplyCurationResponse:
        check_id("run_id", request.run_id)
        order = Order(
            run_id=request.run_id,
            epoch=request.epoch,
            ages=_ages(request.ages),
            plan=request.plan,
            plan_failure=request.plan_failure,
            job_skills=frozenset(request.job_skills),
            dry_run=request.dry_run,
        )
        async with self._curations.opened(profile_of(request.profile)) as curation:
            made = await curation.apply(order)
        return pb.ApplyCurationResponse(report=_report(made))

    async def RestoreSkills(
        self, request: pb.RestoreSkillsRequest, context: Context
    ) -> pb.RestoreSkillsResponse:
        check_id("run_id", request.run_id)
        async with self._curations.opened(profile_of(request.profile)) as curation:
            made = await curation.restore(request.run_id, request.backup_id)
        return pb.RestoreSkillsResponse(report=_report(made))

    async def ListCurationReports(
        self, request: pb.ListCurationReportsRequest, context: Context
    ) -> pb.ListCurationReportsResponse:
        most = page_size(request.page_size, REPORTS_PER_PAGE, MAX_REPORTS)
        async with self._curations.opened(profile_of(request.profile)) as curation:
            found = await curation.reports(most)
        return pb.ListCurationReportsResponse(reports=map(_report, found))


def _curation(standing: CurationStatus) -> pb.Curation:
    state = standing.state
    return message_of(
        state,
        pb.Curation,
        profile=standing.profile,
        is_paused=state.paused,
        last_summary=state.last_run_summary,
        idle_since=standing.activity.last_at,
        is_busy=standing.activity.is_busy,
        backup_ids=standing.backup_ids,
        epoch=state.last_run_epoch,
    )


def _ages(message: pb.SkillAges) -> Ages:
    found = Ages(message.stale_after.ToTimedelta(), message.archive_after.ToTimedelta())
    if not timedelta() < found.stale <= found.archived:
        raise InvalidArgument("the ages are none", fields={"ages": "0 < stale <= archive"})
    return found


def _report(made: Report) -> report_pb2.CurationReport:
    return message_of(made, report_pb2.CurationReport, time=made.moment)
