"""UsageService."""

from typing import Any

import grpc.aio

from agent_service.convert import budgets as convert
from agent_service.convert.common import profile_of, usage
from agent_service.convert.usage import usage_query, usage_sum
from agent_service.spending import Spending
from agent_service.storage import usage as storage
from hermes.agent.v1 import usage_pb2, usage_pb2_grpc
from services.auth import Identity, caller
from services.database import Database
from services.errors import PermissionDenied
from services.validation import page_size

Context = grpc.aio.ServicerContext[Any, Any]

_SUMS_A_PAGE = 100


class UsageServicer(usage_pb2_grpc.UsageServiceServicer):
    """Serves what was used, and budgets."""

    def __init__(self, database: Database, spending: Spending) -> None:
        self._database = database
        self._spending = spending

    async def GetUsage(
        self, request: usage_pb2.GetUsageRequest, context: Context
    ) -> usage_pb2.GetUsageResponse:
        """Sums up what was used."""
        if request.all_profiles and caller() is not Identity.OPERATOR:
            raise PermissionDenied("only an operator may see what all profiles used")
        query, size = usage_query(request), page_size(request.page_size, _SUMS_A_PAGE)
        total, sums = await self._database.read(lambda conn: storage.totals(conn, query, size))
        return usage_pb2.GetUsageResponse(sums=map(usage_sum, sums), total=usage(total))

    async def GetBudget(
        self, request: usage_pb2.GetBudgetRequest, context: Context
    ) -> usage_pb2.GetBudgetResponse:
        """Returns budgets."""
        profile = profile_of(request.profile)
        account = self._spending.account(profile, request.session_id, request.job_id)
        found = await self._spending.budgets.listed(account)
        return usage_pb2.GetBudgetResponse(
            budgets=map(convert.budget, found),
            warn_percent=self._spending.budgets.policy.warn_percent,
        )

    async def SetBudget(
        self, request: usage_pb2.SetBudgetRequest, context: Context
    ) -> usage_pb2.SetBudgetResponse:
        """Sets a budget."""
        scope, scope_id, limit = convert.new_budget(request)
        profile = profile_of(request.profile)
        await self._spending.budgets.set(
            profile, scope, scope_id, limit, keeps_set=request.keeps_set
        )
        return usage_pb2.SetBudgetResponse()
