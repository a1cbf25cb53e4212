"""Show and set what may be spent on model calls."""

import argparse
import asyncio
from decimal import Decimal, InvalidOperation
from typing import Any

from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from services.cli.arguments import INT64, Actions, up_to
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.cli.usage import dollars
from services.config import Settings
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes budget show
  hermes budget show --session 20261121_101500_a1b2c3
  hermes budget set day --usd 5
  hermes budget set job --id job_06h00k5sv3a2ovn28hk0a80nvk --tokens 200000
  hermes budget set session --usd 1.50 --tokens 1000000
  hermes budget set day --default       what config.yaml says holds again

A model call is only made if what it may take at most fits into every budget."""

SCOPES = {
    "profile": pb.BUDGET_SCOPE_PROFILE,
    "session": pb.BUDGET_SCOPE_SESSION,
    "job": pb.BUDGET_SCOPE_JOB,
    "day": pb.BUDGET_SCOPE_DAY,
}
_NAMES = {number: name for name, number in SCOPES.items()}
MOST = 10**15
_MICRO = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes budget`."""
    actions = Actions(parser, "show|set")
    show = actions.add("show", "the budgets, and how much of each is spent")
    show.add_argument("--session", default="", metavar="ID", help="that of a session too")
    show.add_argument("--job", default="", metavar="ID", help="that of a scheduled job too")
    show.add_argument("--json", action="store_true", help="one JSON list")
    change = actions.add("set", "change a budget; what is not named of it has no limit")
    change.add_argument("scope", choices=tuple(SCOPES), help="what it is for")
    change.add_argument("--id", default="", metavar="ID", help="only this session or job (each)")
    change.add_argument("--usd", metavar="AMOUNT", help="US dollars, such as 2.50")
    change.add_argument("--tokens", type=up_to(INT64), metavar="N", help="tokens sent and received")
    change.add_argument(
        "--unlimited", action="store_true", help="no limit, whatever the config says"
    )
    change.add_argument("--default", action="store_true", help="what config.yaml says holds again")


def run(arguments: argparse.Namespace) -> int:
    """Shows or sets."""
    request = None if arguments.action == "show" else change_request(arguments)
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(_show(settings, arguments) if request is None else _set(settings, request))
    return 0


def change_request(arguments: argparse.Namespace) -> pb.SetBudgetRequest:
    """What `hermes budget set` asks for; InvalidArgument when it makes no sense."""
    amounts = arguments.usd is not None or arguments.tokens is not None
    if amounts + arguments.unlimited + arguments.default != 1:
        raise InvalidArgument("name --usd or --tokens or both, or --unlimited, or --default")
    limit = pb.BudgetAmount(micro_usd=_micro_usd(arguments.usd), tokens=_tokens(arguments.tokens))
    return pb.SetBudgetRequest(
        profile=arguments.profile or "",
        scope=SCOPES[arguments.scope],
        scope_id=arguments.id,
        limit=None if arguments.default else limit,
    )


async def _set(settings: Settings, request: pb.SetBudgetRequest) -> None:
    async with connected(settings, ("agent",)) as channels:
        await UsageServiceStub(channels.to("agent")).SetBudget(request)
    say("The budget is set." if request.HasField("limit") else "The default holds again.")


async def _show(settings: Settings, arguments: argparse.Namespace) -> None:
    request = pb.GetBudgetRequest(
        profile=arguments.profile or "", session_id=arguments.session, job_id=arguments.job
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await UsageServiceStub(channels.to("agent")).GetBudget(request)
    if arguments.json:
        print_json([_described(each) for each in answer.budgets])
    elif answer.budgets:
        print_table(
            ("budget", "id", "limit", "spent", "reserved", "set by"),
            [
                (
                    _NAMES[each.scope],
                    printable(each.scope_id),
                    _shown(each.limit, each.limit),
                    _shown(each.spent, each.limit),
                    _shown(each.reserved, each.limit),
                    "hermes budget" if each.is_set else "config.yaml",
                )
                for each in answer.budgets
            ],
        )
    else:
        say("There is no budget. Set one, such as: hermes budget set day --usd 5")


def _shown(amount: pb.BudgetAmount, limit: pb.BudgetAmount) -> str:
    parts = [dollars(amount.micro_usd)] if limit.micro_usd else []
    parts += [f"{amount.tokens:,} tokens"] if limit.tokens else []
    return ", ".join(parts) or "none"


def _micro_usd(text: str | None) -> int:
    if text is None:
        return 0
    try:
        amount = Decimal(text.removeprefix("$")) * _MICRO
    except InvalidOperation:
        amount = Decimal(0)
    if not (amount.is_finite() and 1 <= amount <= MOST):
        raise InvalidArgument(f"--usd takes an amount such as 2.50, not {text!r}")
    return round(amount)


def _tokens(number: int | None) -> int:
    if number is not None and not 1 <= number <= MOST:
        raise InvalidArgument(f"--tokens takes a number such as 200000, not {number}")
    return number or 0


def _described(each: pb.Budget) -> dict[str, Any]:
    amounts = {
        name: {"micro_usd": amount.micro_usd, "tokens": amount.tokens}
        for name, amount in (
            ("limit", each.limit),
            ("spent", each.spent),
            ("reserved", each.reserved),
        )
    }
    set_by = "budget" if each.is_set else "config"
    return {"scope": _NAMES[each.scope], "scope_id": each.scope_id, **amounts, "set_by": set_by}
