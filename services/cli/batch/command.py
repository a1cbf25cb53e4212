"""Run many prompts, each once in a sandbox of its own."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from time import monotonic
from typing import Any

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import dollars, plural
from services.cli import process
from services.cli.arguments import micro_usd, up_to
from services.cli.batch.dataset import (
    Dataset,
    DatasetItem,
    digest_of,
    file_paths,
    in_chunks,
    read_dataset,
)
from services.cli.chat import attachments
from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    Command,
    Context,
    action,
    arg,
    flag,
    limit,
    pages,
)
from services.cli.console import (
    EXIT_FAILURE,
    StatusLine,
    complain,
    one_line_json,
    print_json,
    printable,
    say,
)
from services.cli.output import Column, describe, enum_word, print_rows, print_table
from services.errors import InvalidArgument
from services.rpc.streams import resume

EXAMPLES = """\
examples:
  hermes batch run prompts.jsonl --run first
  hermes batch run prompts.jsonl --run second --workers 16 --model small --budget 5
  hermes batch list
  hermes batch show first
  hermes batch items first > results.jsonl
  hermes batch stop first
  hermes batch resume first --retry-failed
  hermes batch remove first

Each line of the data set is a JSON object with "prompt" and, if you like, "id", "image", "files",
"setup" (a script that runs first), "check" (a script that scores the result) and "tags".
`hermes batch run` with the same name and data set goes on where it was."""

TOOLSETS = "terminal,file,web,browser,vision,code_execution,todo"
"""By default: none that knows or changes what is the person's own, such as the memory."""
PATIENCE_S = 60.0
"""How long to wait for an absent scheduler."""
PAGE = 500
TOLD_S = 10.0
"""The pause between lines about progress where there is no terminal."""
_UNDER_WAY = (items_pb.BATCH_STATE_RUNNING, items_pb.BATCH_STATE_WAITING)


def _cost(batch: items_pb.Batch) -> int:
    return batch.usage.cost_micro_usd


def _state(batch: items_pb.Batch) -> str:
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


async def _run(context: Context) -> int:
    """Run the prompts of a data set, and wait for the end."""
    given = context.given
    dataset = await asyncio.to_thread(read_dataset, given.dataset)
    for problem in dataset.problems:
        complain(problem)
    if dataset.problems and not given.skip_invalid:
        raise InvalidArgument(
            f"{plural(len(dataset.problems), 'line')} cannot be used; mend them, or leave them out "
            "with --skip-invalid"
        )
    if not dataset.items:
        raise InvalidArgument(f"{given.dataset} has no items")
    batch = await _create(context, dataset)
    if not given.json and batch.done_count:
        say(f"{given.name} goes on: {batch.done_count} of {batch.item_count} items are done")
    if batch.state == items_pb.BATCH_STATE_STOPPED:
        batch = (await _stub(context).ResumeBatch(context.request(pb.ResumeBatchRequest))).batch
    return await _follow(context, batch)


async def _create(context: Context, dataset: Dataset) -> items_pb.Batch:
    given = context.given
    folder = given.dataset.parent
    options = items_pb.BatchOptions(
        worker_count=given.workers,
        model=given.model or "",
        max_model_calls=given.max_turns or 0,
        budget_micro_usd=given.budget or 0,
        sandbox_template=given.sandbox or "",
    )
    toolsets = [each.strip() for each in given.toolsets.split(",") if each.strip()]
    prompts = [await _prompt(context, item, folder, toolsets) for item in dataset.items]
    header = pb.CreateBatchRequest.Header(
        profile=context.profile,
        name=given.name,
        options=options,
        item_count=len(prompts),
        digest=digest_of(options, prompts),
    )

    async def requests() -> AsyncIterator[pb.CreateBatchRequest]:
        yield pb.CreateBatchRequest(header=header)
        for chunk in in_chunks(prompts):
            yield pb.CreateBatchRequest(items=pb.CreateBatchRequest.Items(items=chunk))

    return (await _stub(context).CreateBatch(requests())).batch


async def _prompt(
    context: Context, item: DatasetItem, folder: Path, toolsets: Sequence[str]
) -> items_pb.BatchPrompt:
    files = [await asyncio.to_thread(attachments.read, path) for path in file_paths(item, folder)]
    sent = await attachments.upload(context.channels.to("agent"), files) if files else []
    return items_pb.BatchPrompt(
        item_id=item.id,
        prompt=item.prompt,
        files=sent,
        setup=item.setup,
        check=item.check,
        tags=item.tags,
        toolsets=toolsets,
    )


async def _follow(context: Context, batch: items_pb.Batch) -> int:
    """Show progress to the end; Ctrl-C stops the batch, and a second one leaves at once."""
    stub, asked = _stub(context), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, asked.set)

    async def stop() -> None:
        await asked.wait()
        loop.remove_signal_handler(signal.SIGINT)
        complain("stopping; items under way are finished (Ctrl-C again leaves at once)")
        await stub.StopBatch(context.request(pb.StopBatchRequest))

    try:
        async with asyncio.TaskGroup() as group:
            stopper = group.create_task(stop())
            batch = await _watch(context, batch)
            stopper.cancel()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    if context.given.json:
        print_json(await _report(context, batch))
    else:
        await _tell(context, batch)
    return 0 if batch.state == items_pb.BATCH_STATE_COMPLETED else EXIT_FAILURE


async def _watch(context: Context, batch: items_pb.Batch) -> items_pb.Batch:
    request = context.request(pb.WatchBatchRequest, name=batch.name)
    answers = resume(
        lambda: _stub(context).WatchBatch(request),
        lambda answer: answer.batch.state not in _UNDER_WAY and not answer.batch.running_count,
        patience_s=PATIENCE_S,
    )
    started, done_before, told_at = monotonic(), batch.done_count, monotonic()
    with StatusLine() as status:
        async with aclosing(answers):
            async for answer in answers:
                batch, now = answer.batch, monotonic()
                line = _progress(batch, batch.done_count - done_before, now - started)
                status.show(line)
                if not sys.stderr.isatty() and now - told_at >= TOLD_S:
                    told_at = now
                    complain(line)
    return batch


def _progress(batch: items_pb.Batch, done_now: int, passed_s: float) -> str:
    """Return a line such as `420 of 1000, 25.1/s, 3 failed, $0.12, 23 s left`."""
    rate = done_now / passed_s if passed_s > 0 else 0.0
    parts = [f"{batch.done_count} of {batch.item_count}", f"{rate:.1f}/s"]
    if batch.failed_count:
        parts.append(f"{batch.failed_count} failed")
    if batch.done_count:
        parts.append(f"{100 * batch.success_count // batch.done_count} % succeeded")
    if _cost(batch):
        parts.append(dollars(_cost(batch)))
    if batch.state == items_pb.BATCH_STATE_WAITING:
        parts.append(f"waiting: {printable(batch.reason)}")
    elif rate:
        parts.append(f"{(batch.item_count - batch.done_count) / rate:.0f} s left")
    return ", ".join(parts)


async def _all_items(context: Context, name: str) -> AsyncIterator[items_pb.BatchItem]:
    request = pb.ListItemsRequest(
        name=name, profile=context.profile, ended_only=True, page_size=PAGE
    )
    async for page in pages(_stub(context).ListItems, request):
        for item in page.items:
            yield item


async def _report(context: Context, batch: items_pb.Batch) -> dict[str, Any]:
    """Return a batch with its statistics: of finish reasons, of scores and of each tool."""
    reasons, tools = Counter[str](), dict[str, Counter[str]]()
    scores = list[float]()
    async for item in _all_items(context, batch.name):
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


async def _tell(context: Context, batch: items_pb.Batch) -> None:
    found = await _report(context, batch)
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
    if batch.state not in (*_UNDER_WAY, items_pb.BATCH_STATE_COMPLETED):
        more = " --budget N" if batch.state == items_pb.BATCH_STATE_BUDGET_REACHED else ""
        say(f"\ngo on with: hermes batch resume {batch.name}{more}")


async def _list(context: Context) -> None:
    """List batches, the newest first."""
    found = (await _stub(context).ListBatches(context.request(pb.ListBatchesRequest))).batches
    empty = "There are no batches yet. Run one with: hermes batch run prompts.jsonl --run first"
    context.print_list(found, BATCH, empty)


async def _show(context: Context) -> None:
    """Show a batch with its statistics."""
    batch = (await _stub(context).GetBatch(context.request(pb.GetBatchRequest))).batch
    if context.given.json:
        print_json(await _report(context, batch))
    else:
        await _tell(context, batch)


async def _items(context: Context) -> None:
    """Print the items that have ended as JSON lines, in the order of the data set."""
    async for item in _all_items(context, context.given.name):
        say(one_line_json(describe(item, ITEM)))


async def _stop(context: Context) -> None:
    """Begin no more items; those under way are finished."""
    batch = (await _stub(context).StopBatch(context.request(pb.StopBatchRequest))).batch
    context.print_one(batch, BATCH, f"{batch.name} is {_state(batch)}")


async def _resume(context: Context) -> int:
    """Go on with a batch, and wait for the end."""
    given = context.given
    request = context.request(
        pb.ResumeBatchRequest,
        budget_micro_usd=given.budget,
        worker_count=given.workers,
        retries_failed=given.retry_failed,
    )
    return await _follow(context, (await _stub(context).ResumeBatch(request)).batch)


async def _remove(context: Context) -> None:
    """Remove a batch and its records; the sessions of its items stay."""
    await _stub(context).DeleteBatch(context.request(pb.DeleteBatchRequest))
    say(f"{context.given.name} is removed")


def _stub(context: Context) -> BatchServiceStub:
    return context.stub(BatchServiceStub)


_NAME = arg("NAME", "the name of the batch")
_BUDGET = arg("--budget USD", "begin no more items when they have cost so much", micro_usd)
_WORKERS = up_to(256, 1)

COMMAND = Command(
    EXAMPLES,
    actions=(
        action(
            _run,
            arg("DATASET", "a JSONL file with the prompts", Path),
            arg("--run NAME", "the name of the batch", field="name", required=True),
            arg("--workers N", "items at one time (8)", _WORKERS, default=8),
            arg("--model NAME", "the model, instead of the configured one"),
            arg("--toolsets LIST", f"toolsets that may be used ({TOOLSETS})", default=TOOLSETS),
            arg("--max-turns N", "model calls that an item may make", up_to(1000, 1)),
            _BUDGET,
            arg("--sandbox NAME", "the template of which sandboxes are made"),
            flag("--skip-invalid", "leave out lines that cannot be used", field="skip_invalid"),
            JSON_OBJECT,
            services=process.ALL,
        ),
        action(_list, limit(1000), JSON_LIST),
        action(_show, _NAME, JSON_OBJECT),
        action(_items, _NAME),
        action(_stop, _NAME, JSON_OBJECT),
        action(
            _resume,
            _NAME,
            flag("--retry-failed", "try failed items again", field="retry_failed"),
            arg("--workers N", "items at one time from now on", _WORKERS),
            _BUDGET,
            JSON_OBJECT,
            services=process.ALL,
        ),
        action(_remove, _NAME),
    ),
    services=("scheduler",),
)
