"""Show and set budgets for model calls."""

import argparse
import sys

from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from services.amounts import dollars
from services.cli.arguments import MOST, micro_usd, up_to
from services.cli.command import JSON_LIST, Command, Context, action, arg, flag
from services.cli.console import complain, printable, say
from services.cli.output import Column
from services.cli.standard_input import agreed
from services.cli.startup import keep
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes budget show
  hermes budget show --session 20261121_101500_a1b2c3
  hermes budget set day --usd 5
  hermes budget set job --id job_06h00k5sv3a2ovn28hk0a80nvk --tokens 200000
  hermes budget set session --usd 1.50 --tokens 1000000
  hermes budget set day --default       use the value of config.yaml again

Hermes makes a model call only if its maximum cost fits into every budget."""

_AMOUNTS = ("limit", "spent", "reserved")
SCOPES = ("profile", "session", "job", "day")


def change_request(given: argparse.Namespace) -> pb.SetBudgetRequest:
    """Build the request of `hermes budget set`; raises InvalidArgument."""
    amounts = given.usd is not None or given.tokens is not None
    if amounts + given.unlimited + given.default != 1:
        raise InvalidArgument("give --usd, --tokens or both, or --unlimited, or --default")
    limit = pb.BudgetAmount(micro_usd=given.usd or 0, tokens=given.tokens or 0)
    return pb.SetBudgetRequest(
        profile=given.profile or "",
        scope=pb.BudgetScope.Value(f"BUDGET_SCOPE_{given.scope.upper()}"),
        scope_id=given.id,
        limit=None if given.default else limit,
    )


async def _set(context: Context) -> None:
    """Set a budget; an amount that you do not give has no limit."""
    answer = await context.stub(UsageServiceStub).SetBudget(change_request(context.given))
    say("The default applies again." if context.given.default else "The budget is set.")
    if answer.unpriced_model:
        await _ask_for_price(context, answer.unpriced_model)


async def _ask_for_price(context: Context, model: str) -> None:
    """Warn that the model is not called any more, and offer to count it as free."""
    complain(f"the price of {printable(model)} is not known, so this budget in US dollars stops it")
    if sys.stdin.isatty() and await agreed("Count models without a known price as free?", ""):
        path = keep(context.settings, "budget.unpriced", "free")
        say(f"Saved budget.unpriced in {path}. It applies from the next start of Hermes.")
    else:
        complain(
            "set its price under models in config.yaml, use --tokens instead, or run: "
            "hermes config set budget.unpriced free"
        )


async def _show(context: Context) -> None:
    """Show the budgets, and how much is spent."""
    answer = await context.stub(UsageServiceStub).GetBudget(context.request(pb.GetBudgetRequest))
    nothing = "There is no budget. Set one with: hermes budget set day --usd 5"
    context.print_list(answer.budgets, _COLUMNS, nothing)


def _amount(name: str) -> Column:
    def shown(budget: pb.Budget) -> str:
        amount: pb.BudgetAmount = getattr(budget, name)
        parts = [dollars(amount.micro_usd)] if budget.limit.micro_usd else []
        parts += [f"{amount.tokens:,} tokens"] if budget.limit.tokens else []
        return ", ".join(parts) or "none"

    return Column(name, shown)


_COLUMNS = (
    Column("budget", "scope"),
    Column("id", "scope_id"),
    *map(_amount, _AMOUNTS),
    Column("set by", lambda it: "hermes budget" if it.is_set else "config.yaml"),
)
_ACTIONS = (
    action(
        _show,
        arg("--session ID", "also show the budget of this session", field="session_id", default=""),
        arg("--job ID", "also show the budget of this job", field="job_id", default=""),
        JSON_LIST,
    ),
    action(
        _set,
        arg("scope", "what the budget limits", choices=SCOPES),
        arg("--id ID", "only this session or job (all)", default=""),
        arg("--usd AMOUNT", "limit in US dollars, such as 2.50", micro_usd),
        arg("--tokens N", "limit of tokens, sent and received", up_to(MOST, 1)),
        flag("--unlimited", "remove the limit"),
        flag("--default", "use the limit in config.yaml again"),
    ),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("agent",))
