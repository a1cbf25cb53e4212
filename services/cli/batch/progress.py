"""Shows the progress of a batch."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import dollars
from services.cli.command import Context
from services.cli.console import StatusLine, complain, printable
from services.cli.output import local_time
from services.lifecycle import ungrouped
from services.rpc.streams import resume

EXIT_UNFINISHED = 3
"""The status if the batch was stopped, or has reached its budget."""
PATIENCE_S = 60.0
"""How long to wait for an absent scheduler."""
TOLD_S = 10.0
"""The pause between lines about progress where there is no terminal."""
SAME_PRESS_S = 0.1
"""`timeout` sends a signal to a process and to its group: that is one Ctrl-C."""
UNDER_WAY = (items_pb.BATCH_STATE_RUNNING, items_pb.BATCH_STATE_WAITING)


async def follow(context: Context, batch: items_pb.Batch) -> items_pb.Batch:
    """Show progress to the end; Ctrl-C stops the batch, and a second one leaves at once."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, asked.set)

    async def stop() -> None:
        await asked.wait()
        await asyncio.sleep(SAME_PRESS_S)
        loop.remove_signal_handler(signal.SIGINT)
        StatusLine().show("")  # on whose line the terminal has written ^C
        complain("stopping; items in progress are finished (Ctrl-C again leaves at once)")
        await context.stub(BatchServiceStub).StopBatch(
            context.request(pb.StopBatchRequest, name=batch.name)
        )

    try:
        with ungrouped():
            async with asyncio.TaskGroup() as group:
                stopper = group.create_task(stop())
                batch = await _watch(context, batch)
                stopper.cancel()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return batch


async def watch(context: Context, name: str) -> AsyncGenerator[items_pb.Batch]:
    """Yield a batch after changes until nothing works on it; iterate under `aclosing`."""
    request = context.request(pb.WatchBatchRequest, name=name)
    answers = resume(
        lambda: context.stub(BatchServiceStub).WatchBatch(request),
        lambda answer: answer.batch.state not in UNDER_WAY and not answer.batch.running_count,
        patience_s=PATIENCE_S,
    )
    async with aclosing(answers):
        async for answer in answers:
            yield answer.batch


async def _watch(context: Context, batch: items_pb.Batch) -> items_pb.Batch:
    started, done_before, told_at, reason = monotonic(), batch.done_count, monotonic(), ""
    with StatusLine() as status:
        async with aclosing(watch(context, batch.name)) as batches:
            async for batch in batches:  # noqa: PLR1704 - the newest
                now = monotonic()
                line = _progress(batch, batch.done_count - done_before, now - started)
                status.show(line)
                is_news = batch.reason not in ("", reason)
                if not sys.stderr.isatty() and (is_news or now - told_at >= TOLD_S):
                    told_at, reason = now, batch.reason
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
    if batch.usage.cost_micro_usd:
        parts.append(dollars(batch.usage.cost_micro_usd))
    if batch.state == items_pb.BATCH_STATE_WAITING:
        until = local_time(batch.resume_time, seconds=True)
        parts.append(f"waiting until {until}: {printable(batch.reason)}")
    elif batch.reason:
        parts.append(printable(batch.reason))
    elif rate:
        parts.append(f"{(batch.item_count - batch.done_count) / rate:.0f} s left")
    return ", ".join(parts)
