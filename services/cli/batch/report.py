"""Batches and their items as people and programs read them."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec import Struct

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.cli.batch.progress import UNDER_WAY
from services.cli.command import Context, pages
from services.cli.console import printable, say
from services.cli.output import Column, enum_word, json_value, print_rows, print_table

PAGE = 500
_SHOWN_CHARS = 300


def score_of(item: items_pb.BatchItem) -> float | None:
    """Return what an item's check has scored; None if it has none or could not be run."""
    return item.result.score if item.result.HasField("score") else None


def state_word(batch: items_pb.Batch) -> str:
    """Return a batch's state in small letters."""
    return enum_word(items_pb.BatchState, batch.state)


BATCH = (
    Column("name"),
    Column("state"),
    Column("items", "item_count"),
    Column("done", "done_count"),
    Column("succeeded", "success_count"),
    Column("failed", "failed_count"),
    Column("cost", "usage.cost_micro_usd"),
    Column("created", "create_time"),
)
DISTRIBUTION = (
    Column("name"),
    Column(
        "toolsets in percent",
        "chances",
        lambda chances: ", ".join(f"{name} {chance:g}" for name, chance in chances.items()),
    ),
)


async def all_items(context: Context, name: str) -> AsyncIterator[items_pb.BatchItem]:
    """Yield the items that have ended, in the order of the data set."""
    request = pb.ListItemsRequest(
        name=name, profile=context.profile, ended_only=True, page_size=PAGE
    )
    async for page in pages(context.stub(BatchServiceStub).ListItems, request):
        for item in page.items:
            yield item


class ItemSummary(Struct, frozen=True):
    """What the page shows of an item that has ended."""

    id: str
    session_id: str
    finish_reason: str
    prompt: str
    problem: str
    """Its error, or else what its check printed."""
    model: str
    score: float | None
    has_failed: bool
    has_succeeded: bool
    ended_s: float
    """Since the batch was created."""
    lasted_s: float
    tokens: int
    cost_micro_usd: int


class Report(Struct, frozen=True):
    """A batch with the statistics of its items that have ended."""

    batch: items_pb.Batch
    items: Sequence[ItemSummary]
    finish_reasons: dict[str, int]
    """How many items ended so; the most frequent reason first."""
    tools: dict[str, dict[str, int]]
    """The calls, failures and duration_ms of each tool."""

    @property
    def scores(self) -> list[float]:
        return [item.score for item in self.items if item.score is not None]

    @property
    def mean_score(self) -> float | None:
        scores = self.scores
        return sum(scores) / len(scores) if scores else None

    @property
    def passed_s(self) -> float:
        """How long after its creation its last item ended."""
        return max((item.ended_s for item in self.items), default=0.0)

    def as_json(self) -> dict[str, Any]:
        """Return the batch and the statistics as a JSON object."""
        return {
            **json_value(self.batch),
            "mean_score": self.mean_score,
            "finish_reasons": self.finish_reasons,
            "tools": self.tools,
        }


async def report_of(context: Context, batch: items_pb.Batch) -> Report:
    """Return a batch with its statistics: of finish reasons, of scores and of each tool."""
    reasons, tools = Counter[str](), dict[str, Counter[str]]()
    items = list[ItemSummary]()
    async for item in all_items(context, batch.name):
        reasons[item.result.finish_reason] += 1
        items.append(_summary(batch, item))
        for use in item.result.tools:
            tools.setdefault(use.name, Counter()).update(
                calls=use.call_count, failures=use.failure_count, duration_ms=use.duration_ms
            )
    return Report(
        batch=batch,
        items=items,
        finish_reasons=dict(reasons.most_common()),
        tools={name: dict(tools[name]) for name in sorted(tools)},
    )


def _summary(batch: items_pb.Batch, item: items_pb.BatchItem) -> ItemSummary:
    result, usage = item.result, item.result.usage
    score = score_of(item)
    is_completed = item.state == items_pb.ITEM_STATE_COMPLETED
    finished_ms = item.finish_time.ToMilliseconds()
    return ItemSummary(
        id=item.prompt.item_id,
        session_id=item.session_id,
        finish_reason=result.finish_reason,
        prompt=item.prompt.prompt[:_SHOWN_CHARS],
        problem=(result.error or result.check_output)[:_SHOWN_CHARS],
        model=result.model,
        score=score,
        has_failed=item.state == items_pb.ITEM_STATE_FAILED,
        has_succeeded=score == 1 if item.prompt.check.strip() else is_completed,
        ended_s=max(0, finished_ms - batch.create_time.ToMilliseconds()) / 1000,
        lasted_s=max(0, finished_ms - item.start_time.ToMilliseconds()) / 1000,
        tokens=usage.prompt_tokens + usage.completion_tokens,
        cost_micro_usd=usage.cost_micro_usd,
    )


def print_report(report: Report) -> None:
    """Print a batch with its statistics, and how to go on with it."""
    batch, usage = report.batch, report.batch.usage
    print_rows([batch], BATCH)
    if batch.reason:
        say(f"\n{printable(batch.reason)}")
    if report.mean_score is not None:
        say(f"\nmean score  {report.mean_score:.3f}")
    say(f"tokens  {usage.prompt_tokens:,} in, {usage.completion_tokens:,} out")
    if report.finish_reasons:
        say("")
        counted = report.finish_reasons.items()
        print_table(["ended", "items"], [[name, str(count)] for name, count in counted])
    if report.tools:
        say("")
        rows = [
            [name, str(use["calls"]), str(use["failures"]), f"{use['duration_ms'] / 1000:.1f}"]
            for name, use in report.tools.items()
        ]
        print_table(["tool", "calls", "failures", "seconds"], rows)
    if batch.state not in (*UNDER_WAY, items_pb.BATCH_STATE_COMPLETED):
        more = " --budget N" if batch.state == items_pb.BATCH_STATE_BUDGET_REACHED else ""
        say(f"\nto continue: hermes batch resume {batch.name}{more}")
