"""Budgets on the wire."""

from agent_service.budget import Amount, Scope, Standing
from hermes.agent.v1 import usage_pb2 as pb
from services.errors import InvalidArgument
from services.validation import check_id

MOST = 10**15

_SCOPES = {
    pb.BUDGET_SCOPE_PROFILE: Scope.PROFILE,
    pb.BUDGET_SCOPE_SESSION: Scope.SESSION,
    pb.BUDGET_SCOPE_JOB: Scope.JOB,
    pb.BUDGET_SCOPE_DAY: Scope.DAY,
}
_WIRE = {scope: number for number, scope in _SCOPES.items()}


def budget(standing: Standing) -> pb.Budget:
    """A budget on the wire."""
    return pb.Budget(
        scope=_WIRE[standing.scope],
        scope_id=standing.scope_id,
        limit=_amount(standing.limit),
        spent=_amount(standing.spent),
        reserved=_amount(standing.reserved),
        is_set=standing.is_set,
    )


def new_budget(request: pb.SetBudgetRequest) -> tuple[Scope, str, Amount | None]:
    """A checked SetBudget: what for, which of it and how much; InvalidArgument names a mistake."""
    scope = _SCOPES.get(request.scope)
    if scope is None:
        raise InvalidArgument("not a scope", fields={"scope": "a value of BudgetScope"})
    if request.scope_id:
        check_id("scope_id", request.scope_id)
        if scope in (Scope.PROFILE, Scope.DAY):
            wanted = {"scope_id": "empty for this scope"}
            raise InvalidArgument(f"a {scope} has no id", fields=wanted)
    if not request.HasField("limit"):
        return scope, request.scope_id, None
    for name in ("micro_usd", "tokens"):
        if not 0 <= getattr(request.limit, name) <= MOST:
            raise InvalidArgument(f"{name} is out of range", fields={f"limit.{name}": "0 to 10^15"})
    return scope, request.scope_id, Amount(request.limit.micro_usd, request.limit.tokens)


def _amount(amount: Amount) -> pb.BudgetAmount:
    return pb.BudgetAmount(micro_usd=amount.micro_usd, tokens=amount.tokens)
