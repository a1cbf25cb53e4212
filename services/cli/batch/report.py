"""Batches and their items as people and programs read them."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import dollars
from services.cli.batch.progress import UNDER_WAY
from services.cli.command import Context, pages
from services.cli.console import printable, say
from services.cli.output import Column, describe, enum_word, print_rows, print_table

PAGE = 500


def _cost(batch: items_pb.Batch) -> int:
    return batch.usage.cost_micro_usd


def state_word(batch: items_pb.Batch) -> str:
    """Return a batch's state in small letters."""
    return enum_word(items_pb.BatchState, batch.state)


BATCH = (
    Column("name", "name"),
    Column("state", "state"),
    Column("items", "items", source="item_count"),
    Column("done", "done", source="done_count"),
    Column("running", source="running_count"),
    Column("succeeded", "succeeded", source="success_count"),
    Column("failed", "failed", source="failed_count"),
    Column("cost_micro_usd", "cost", source=_cost, cell=dollars),
    Column("reason"),
    Column("created_at", "created", source="create_time"),
    Column("finished_at", source="finish_time"),
)
ITEM = (
    Column("position"),
    Column("id", source="prompt.item_id"),
    Column("state"),
    Column("attempt"),
    Column("prompt", source="prompt.prompt"),
    Column("toolsets", source=lambda item: list(item.prompt.toolsets)),
    Column("tags", source=lambda item: list(item.prompt.tags)),
    Column("answer", source="result.answer"),
    Column("error", source="result.error"),
    Column("finish_reason", source="result.finish_reason"),
    Column(
        "score", source=lambda item: item.result.score if item.result.HasField("score") else None
    ),
    Column("check_output", source="result.check_output"),
    Column("cost_micro_usd", source="result.usage.cost_micro_usd"),
    Column("model", source="result.model"),
    Column("session_id"),
    Column("started_at", source="start_time"),
    Column("finished_at", source="finish_time"),
)


async def all_items(context: Context, name: str) -> AsyncIterator[items_pb.BatchItem]:
    """Yield the items that have ended, in the order of the data set."""
    request = pb.ListItemsRequest(
        name=name, profile=context.profile, ended_only=True, page_size=PAGE
    )
    async for page in pages(context.stub(BatchServiceStub).ListItems, request):
        for item in page.items:
            yield item


async def report_of(context: Context, batch: items_pb.Batch) -> dict[str, Any]:
    """Return a batch with its statistics: of finish reasons, of scores and of each tool."""
    reasons, tools = Counter[str](), dict[str, Counter[str]]()
    scores = list[float]()
    async for item in all_items(context, batch.name):
        reasons[item.result.finish_reason] += 1
        if item.result.HasField("score"):
            scores.append(item.result.score)
        for use in item.result.tools:
            tools.setdefault(use.name, Counter()).update(
                calls=use.call_count, failures=use.failure_count, duration_ms=use.duration_ms
            )
    return {
        **describe(batch, BATCH),
        "input_tokens": batch.usage.prompt_tokens,
        "output_tokens": batch.usage.completion_tokens,
        "mean_score": sum(scores) / len(scores) if scores else None,
        "finish_reasons": dict(reasons.most_common()),
        "tools": {name: dict(tools[name]) for name in sorted(tools)},
    }


async def print_report(context: Context, batch: items_pb.Batch) -> None:
    """Print a batch with its statistics, and how to go on with it."""
    found = await report_of(context, batch)
    print_rows([batch], BATCH)
    if batch.reason:
        say(f"\n{printable(batch.reason)}")
    if found["mean_score"] is not None:
        say(f"\nmean score  {found['mean_score']:.3f}")
    say(f"tokens  {found['input_tokens']:,} in, {found['output_tokens']:,} out")
    if found["finish_reasons"]:
        say("")
        counted = found["finish_reasons"].items()
        print_table(["ended", "items"], [[name, str(count)] for name, count in counted])
    if found["tools"]:
        say("")
        rows = [
            [name, str(use["calls"]), str(use["failures"]), f"{use['duration_ms'] / 1000:.1f}"]
            for name, use in found["tools"].items()
        ]
        print_table(["tool", "calls", "failures", "seconds"], rows)
    if batch.state not in (*UNDER_WAY, items_pb.BATCH_STATE_COMPLETED):
        more = " --budget N" if batch.state == items_pb.BATCH_STATE_BUDGET_REACHED else ""
        say(f"\ngo on with: hermes batch resume {batch.name}{more}")
