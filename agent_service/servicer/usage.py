"""UsageService."""

from datetime import date

from agent_service.models.budgeted_models import BudgetedModels
from agent_service.records.budget import Amount, Scope
from agent_service.servicer.fields import Context, chosen, profile_of, usage
from agent_service.storage import usage as storage
from agent_service.storage.budgets import every_limit
from agent_service.storage.usage import UsageGroup, UsageQuery
from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceServicer
from services.database import Database
from services.errors import InvalidArgument, PermissionDenied
from services.rpc.auth import Identity, caller
from services.rpc.messages import message_of
from services.validation import check_id, page_size

MAX_AMOUNT = 10**15
_SUMS_A_PAGE = 100


class UsageServicer(UsageServiceServicer):
    """Serves usage and budgets."""

    def __init__(self, database: Database, spending: BudgetedModels) -> None:
        self._database = database
        self._spending = spending

    async def GetUsage(self, request: pb.GetUsageRequest, context: Context) -> pb.GetUsageResponse:
        if request.all_profiles and caller() is not Identity.OPERATOR:
            raise PermissionDenied("only an operator may see what all profiles used")
        query, size = _query(request), page_size(request.page_size, _SUMS_A_PAGE)
        total, sums = await self._database.read(lambda conn: storage.totals(conn, query, size))
        return pb.GetUsageResponse(
            sums=[pb.UsageSum(key=key, usage=usage(used)) for key, used in sums], total=usage(total)
        )

    async def GetBudget(
        self, request: pb.GetBudgetRequest, context: Context
    ) -> pb.GetBudgetResponse:
        profile = profile_of(request.profile)
        account = self._spending.account(profile, request.session_id, request.job_id)
        policy = self._spending.policy
        found = await self._database.read(lambda conn: every_limit(conn, account, policy))
        return pb.GetBudgetResponse(
            budgets=[message_of(standing, pb.Budget) for standing in found],
            warn_percent=policy.warn_percent,
        )

    async def SetBudget(
        self, request: pb.SetBudgetRequest, context: Context
    ) -> pb.SetBudgetResponse:
        scope = chosen(Scope, pb.BudgetScope, request.scope, "scope")
        if request.scope_id:
            check_id("scope_id", request.scope_id)
            if scope in (Scope.PROFILE, Scope.DAY):
                wanted = {"scope_id": "empty for this scope"}
                raise InvalidArgument(f"a {scope} has no id", fields=wanted)
        await self._spending.set_budget(
            profile_of(request.profile),
            scope,
            request.scope_id,
            _limit(request.limit) if request.HasField("limit") else None,
            keeps_set=request.keeps_set,
        )
        in_usd = request.HasField("limit") and request.limit.micro_usd
        unpriced = await self._spending.unpriced_model() if in_usd else ""
        return pb.SetBudgetResponse(unpriced_model=unpriced)


def _query(request: pb.GetUsageRequest) -> UsageQuery:
    return UsageQuery(
        by=chosen(UsageGroup, pb.UsageGroup, request.group_by, "group_by", UsageGroup.DAY),
        profile="" if request.all_profiles else profile_of(request.profile),
        session_id=request.session_id,
        since=_day("since_day", request.since_day),
        until=_day("until_day", request.until_day),
    )


def _day(field: str, text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise InvalidArgument(f"{field} is not a day", fields={field: "YYYY-MM-DD"}) from None


def _limit(given: pb.BudgetAmount) -> Amount:
    for name in ("micro_usd", "tokens"):
        if not 0 <= getattr(given, name) <= MAX_AMOUNT:
            raise InvalidArgument(f"{name} is out of range", fields={f"limit.{name}": "0 to 10^15"})
    return Amount(given.micro_usd, given.tokens)
