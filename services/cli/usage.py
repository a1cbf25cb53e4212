"""Show the tokens and the cost of model calls."""

import re
from datetime import date, timedelta

from hermes.agent.v1 import usage_pb2 as pb
from hermes.agent.v1.usage_pb2_grpc import UsageServiceStub
from services.cli.command import JSON_OBJECT, Command, Context, arg, limit
from services.cli.console import say
from services.cli.output import Column, print_json
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes usage                         by day, the newest first
  hermes usage --by model --since 7d
  hermes usage --by session --since 2026-11-01 --limit 10
  hermes usage --by profile --json     all profiles of the home"""

GROUPS = ("day", "model", "session", "profile")
_LAST_DAYS = re.compile(r"([0-9]{1,5})d")


def first_day(since: str, today: date) -> str:
    """Parse the day of `--since`; raises InvalidArgument."""
    if (days := _LAST_DAYS.fullmatch(since)) is None:
        try:
            return date.fromisoformat(since).isoformat() if since else ""
        except ValueError:
            raise InvalidArgument(f"--since {since!r} is no day such as 2026-11-01 or 7d") from None
    return (today - timedelta(days=max(1, int(days[1])) - 1)).isoformat()


async def _show(context: Context) -> None:
    given = context.given
    request = context.request(
        pb.GetUsageRequest,
        group_by=f"USAGE_GROUP_{given.by.upper()}",
        since_day=first_day(given.since, date.today()),  # noqa: DTZ011 - of whoever asks
        all_profiles=given.by == "profile" and not context.profile,
    )
    answer = await context.stub(UsageServiceStub).GetUsage(request)
    if given.json:
        print_json(answer)
    elif answer.sums:
        rows = [*answer.sums, pb.UsageSum(key="total", usage=answer.total)]
        context.print_list(rows, (Column(given.by, "key"), *_COUNTS), "")
    else:
        say("No model was called since then." if given.since else "No model was called yet.")


_COUNTS = tuple(
    Column(heading, f"usage.{field}")
    for heading, field in (
        ("calls", "call_count"),
        ("sent", "prompt_tokens"),
        ("cached", "cached_tokens"),
        ("received", "completion_tokens"),
        ("reasoning", "reasoning_tokens"),
        ("cost", "cost_micro_usd"),
    )
)
COMMAND = Command(
    EXAMPLES,
    function=_show,
    arguments=(
        arg("--by", "group by (day)", choices=GROUPS, default="day"),
        arg("--since DAY", "from this day on: YYYY-MM-DD, or 7d for the last 7 days", default=""),
        limit(1000, 30),
        JSON_OBJECT,
    ),
    services=("agent",),
)
