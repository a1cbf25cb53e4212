"""CurationService."""

from typing import Any

import grpc.aio

from agent_service.convert import curation as convert
from agent_service.convert.common import profile_of
from agent_service.curation.shelf import Curations
from hermes.agent.v1 import curation_pb2, curation_pb2_grpc
from services.validation import check_id, page_size

Context = grpc.aio.ServicerContext[Any, Any]

REPORTS_PER_PAGE, MAX_REPORTS = 20, 100


class CurationServicer(curation_pb2_grpc.CurationServiceServicer):
    """Serves the scheduler's curator."""

    def __init__(self, curations: Curations) -> None:
        self._curations = curations

    async def ListCurations(
        self, request: curation_pb2.ListCurationsRequest, context: Context
    ) -> curation_pb2.ListCurationsResponse:
        """Lists how curation stands."""
        found = await self._curations.standings(request.profile)
        return curation_pb2.ListCurationsResponse(curations=map(convert.curation, found))

    async def UpdateCuration(
        self, request: curation_pb2.UpdateCurationRequest, context: Context
    ) -> curation_pb2.UpdateCurationResponse:
        """Pauses, resumes or begins it."""
        standing = await self._curations.update(
            profile_of(request.profile),
            is_paused=request.is_paused if request.HasField("is_paused") else None,
            begins=request.begins,
        )
        return curation_pb2.UpdateCurationResponse(curation=convert.curation(standing))

    async def PlanConsolidation(
        self, request: curation_pb2.PlanConsolidationRequest, context: Context
    ) -> curation_pb2.PlanConsolidationResponse:
        """Asks the model."""
        plan = await self._curations.plan(
            profile_of(request.profile), convert.ages(request.ages), set(request.job_skills)
        )
        return curation_pb2.PlanConsolidationResponse(plan=plan)

    async def ApplyCuration(
        self, request: curation_pb2.ApplyCurationRequest, context: Context
    ) -> curation_pb2.ApplyCurationResponse:
        """Does what the rules allow."""
        check_id("run_id", request.run_id)
        made = await self._curations.apply(profile_of(request.profile), convert.order(request))
        return curation_pb2.ApplyCurationResponse(report=convert.report(made))

    async def RestoreSkills(
        self, request: curation_pb2.RestoreSkillsRequest, context: Context
    ) -> curation_pb2.RestoreSkillsResponse:
        """Restores a backup."""
        check_id("run_id", request.run_id)
        made = await self._curations.restore(
            profile_of(request.profile), request.run_id, request.backup_id
        )
        return curation_pb2.RestoreSkillsResponse(report=convert.report(made))

    async def ListCurationReports(
        self, request: curation_pb2.ListCurationReportsRequest, context: Context
    ) -> curation_pb2.ListCurationReportsResponse:
        """Lists reports."""
        most = page_size(request.page_size, REPORTS_PER_PAGE, MAX_REPORTS)
        found = await self._curations.reports(profile_of(request.profile), most)
        return curation_pb2.ListCurationReportsResponse(reports=map(convert.report, found))
