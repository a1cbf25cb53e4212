"""Show what model calls used and cost."""

import argparse
import asyncio
from datetime import date, timedelta
from typing import Any

from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from hermes.common.v1.usage_pb2 import Usage
from services.cli.arguments import INT32, add_home, up_to
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes usage                         by day, the newest first
  hermes usage --by model --since 7d
  hermes usage --by session --since 2026-11-01 --limit 10
  hermes usage --by profile --json     of every profile of the home"""

GROUPS = {
    "day": pb.USAGE_GROUP_DAY,
    "model": pb.USAGE_GROUP_MODEL,
    "session": pb.USAGE_GROUP_SESSION,
    "profile": pb.USAGE_GROUP_PROFILE,
}
MOST_DAYS = 36_500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes usage`."""
    add_home(parser)
    parser.add_argument(
        "--by", choices=tuple(GROUPS), default="day", help="what it is summed up by (day)"
    )
    parser.add_argument(
        "--since", default="", metavar="DAY", help="from YYYY-MM-DD, or the last days as in 7d"
    )
    parser.add_argument(
        "--limit", type=up_to(INT32), default=30, metavar="N", help="how many sums (30)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Shows what was used."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(_show(settings, arguments))
    return 0


def first_day(since: str, today: date) -> str:
    """The day that `--since` means."""
    number = since[:-1]
    if since.endswith("d") and number.isascii() and number.isdigit():
        days = int(number) if len(number) < 6 else MOST_DAYS
        return (today - timedelta(days=max(1, min(days, MOST_DAYS)) - 1)).isoformat()
    return since


async def _show(settings: Settings, arguments: argparse.Namespace) -> None:
    request = pb.GetUsageRequest(
        profile=arguments.profile or "",
        group_by=GROUPS[arguments.by],
        since_day=first_day(arguments.since, date.today()),  # noqa: DTZ011 - of whoever asks
        page_size=_limit(arguments.limit),
        all_profiles=arguments.by == "profile" and not arguments.profile,
    )
    async with connected(settings, ("agent",)) as channels:
        answer = await UsageServiceStub(channels.to("agent")).GetUsage(request)
    if arguments.json:
        sums = [{arguments.by: one.key, **_described(one.usage)} for one in answer.sums]
        print_json({"by": arguments.by, "sums": sums, "total": _described(answer.total)})
    elif answer.sums:
        rows = [(printable(one.key), *_cells(one.usage)) for one in answer.sums]
        head = (arguments.by, "calls", "sent", "cached", "received", "reasoning", "cost")
        print_table(head, [*rows, ("total", *_cells(answer.total))])
    else:
        say("Nothing was used yet." if not arguments.since else "Nothing was used since then.")


def dollars(micro_usd: int) -> str:
    """An amount as people read it: cents, and more of it where there is less."""
    usd = micro_usd / 1_000_000
    return f"${usd:,.2f}" if usd >= 1 or not micro_usd else f"${usd:.4f}"


def _limit(limit: int) -> int:
    if not 1 <= limit <= 1000:
        raise InvalidArgument("--limit takes 1 to 1000")
    return limit


def _cells(used: Usage) -> tuple[str, ...]:
    counts = (
        used.call_count,
        used.prompt_tokens,
        used.cached_tokens,
        used.completion_tokens,
        used.reasoning_tokens,
    )
    return (*(f"{count:,}" for count in counts), dollars(used.cost_micro_usd))


def _described(used: Usage) -> dict[str, Any]:
    return {
        "call_count": used.call_count,
        "prompt_tokens": used.prompt_tokens,
        "cached_tokens": used.cached_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "completion_tokens": used.completion_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "cost_micro_usd": used.cost_micro_usd,
    }
