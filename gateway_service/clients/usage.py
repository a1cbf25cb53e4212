"""What model calls used and cost."""

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf, of_agent
from hermes.agent.v1 import usage_pb2, usage_pb2_grpc
from hermes.common.v1.usage_pb2 import Usage

_SCOPES = {
    usage_pb2.BUDGET_SCOPE_PROFILE: "in all",
    usage_pb2.BUDGET_SCOPE_SESSION: "this session",
    usage_pb2.BUDGET_SCOPE_JOB: "a job",
    usage_pb2.BUDGET_SCOPE_DAY: "today",
}


class Used(Struct, frozen=True):
    """What was used."""

    call_count: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_micro_usd: int


class BudgetInfo(Struct, frozen=True):
    """A budget and how it stands; 0 in a limit means none."""

    scope: str
    limit_micro_usd: int
    limit_tokens: int
    spent_micro_usd: int
    spent_tokens: int

    @property
    def has_limit(self) -> bool:
        """Whether anything is limited."""
        return bool(self.limit_micro_usd or self.limit_tokens)


class UsageClient:
    """Reads usage and budgets."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _stub(self) -> usage_pb2_grpc.UsageServiceStub:
        return usage_pb2_grpc.UsageServiceStub(self._channel_of("agent"))

    async def of_session(self, session_id: str, profile: str) -> Used:
        """What a session used."""
        request = usage_pb2.GetUsageRequest(profile=profile, session_id=session_id, page_size=1)
        return _used((await of_agent(self._stub.GetUsage(request))).total)

    async def latest_day(self, profile: str) -> tuple[str, Used] | None:
        """The last day on which anything was used, as YYYY-MM-DD, and what it was."""
        request = usage_pb2.GetUsageRequest(
            profile=profile, group_by=usage_pb2.USAGE_GROUP_DAY, page_size=1
        )
        found = (await of_agent(self._stub.GetUsage(request))).sums
        return (found[0].key, _used(found[0].usage)) if found else None

    async def budgets(self, session_id: str, profile: str) -> Sequence[BudgetInfo]:
        """The budgets that turns of a session are held to."""
        request = usage_pb2.GetBudgetRequest(profile=profile, session_id=session_id)
        found = await of_agent(self._stub.GetBudget(request))
        return [
            BudgetInfo(
                _SCOPES.get(budget.scope, "other"),
                budget.limit.micro_usd,
                budget.limit.tokens,
                budget.spent.micro_usd,
                budget.spent.tokens,
            )
            for budget in found.budgets
            if budget.scope != usage_pb2.BUDGET_SCOPE_JOB and budget.scope_id in ("", session_id)
        ]


def _used(usage: Usage) -> Used:
    return Used(
        usage.call_count,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.completion_tokens,
        usage.cost_micro_usd,
    )
