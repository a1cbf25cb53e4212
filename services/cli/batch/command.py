"""Run many prompts, each once in a sandbox of its own."""

import asyncio
from pathlib import Path

from hermes.scheduler.v1 import batch_item_pb2 as items_pb
from hermes.scheduler.v1 import batch_pb2 as pb
from hermes.scheduler.v1.batch_pb2_grpc import BatchServiceStub
from services.amounts import plural
from services.cli import process
from services.cli.arguments import INT64, up_to
from services.cli.batch import creation
from services.cli.batch.distributions import DEFAULT, list_distributions
from services.cli.batch.export import EXPORT_OPTIONS, export
from services.cli.batch.page import write_page
from services.cli.batch.progress import EXIT_UNFINISHED, follow
from services.cli.batch.report import (
    BATCH,
    DISTRIBUTION,
    all_items,
    print_report,
    report_of,
    state_word,
)
from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    Command,
    Context,
    OneOf,
    action,
    arg,
    flag,
    limit,
)
from services.cli.console import StatusLine, complain, say
from services.cli.output import print_json
from services.errors import InvalidArgument
from services.home.batches.dataset import batch_prompt, read_dataset
from services.home.paths import check_place

EXAMPLES = """\
examples:
  hermes batch run prompts.jsonl --run first
  hermes batch run prompts.jsonl --run second --workers 16 --model small --budget 5
  hermes batch run prompts.jsonl --run mixed --distribution coding --seed 7
  hermes batch list
  hermes batch show first --html first.html
  hermes batch items first > results.jsonl
  hermes batch export first --out my-dataset --format openai --min-score 1 --deduplicate
  hermes batch stop first
  hermes batch resume first --retry-failed
  hermes batch remove first
  hermes batch distributions

Each line of the data set is a JSON object with "prompt" and, if you like, "id", "image", "files",
"setup" (a script that runs first), "check" (a script that scores the result) and "tags".
`hermes batch run` with the same name and data set continues the batch."""


async def _run(context: Context) -> int:
    """Run the prompts of a data set, and wait for the end."""
    given = context.given
    items, problems = await asyncio.to_thread(read_dataset, given.dataset)
    for problem in problems:
        complain(problem)
    if problems and not given.skip_invalid:
        raise InvalidArgument(
            f"{plural(len(problems), 'line')} cannot be used; correct them, or leave "
            "them out with --skip-invalid"
        )
    if not items:
        raise InvalidArgument(f"{given.dataset} has no items")
    mix, folder = creation.toolsets_of(context), given.dataset.parent
    await _check_page(context)
    options = creation.batch_options(context, given.workers, given.budget)
    options.distribution = mix.name
    with StatusLine() as status:
        upload = creation.uploads(context, status)
        prompts = [
            await batch_prompt(item, folder, mix.sample(given.seed, item.id), upload)
            for item in items
        ]
    return await _finish(context, await creation.create(context, given.name, options, prompts))


async def _check_page(context: Context) -> None:
    if (page := context.given.html) is not None:
        await asyncio.to_thread(check_place, page)


async def _finish(context: Context, batch: items_pb.Batch) -> int:
    batch = await follow(context, batch)
    await _print(context, batch)
    return 0 if batch.state == items_pb.BATCH_STATE_COMPLETED else EXIT_UNFINISHED


async def _print(context: Context, batch: items_pb.Batch) -> None:
    report, page = await report_of(context, batch), context.given.html
    if page is not None:
        await asyncio.to_thread(write_page, report, page)
    if context.given.json:
        print_json(report.as_json())
        return
    print_report(report)
    if page is not None:
        say(f"\nwrote {page}")


async def _list(context: Context) -> None:
    """List batches, the newest first."""
    found = (await _stub(context).ListBatches(context.request(pb.ListBatchesRequest))).batches
    empty = "There are no batches yet. Run one with: hermes batch run prompts.jsonl --run first"
    context.print_list(found, BATCH, empty)


async def _show(context: Context) -> None:
    """Show a batch with its statistics."""
    await _print(
        context, (await _stub(context).GetBatch(context.request(pb.GetBatchRequest))).batch
    )


async def _items(context: Context) -> None:
    """Print ended items as JSON lines, in the order of the data set."""
    async for item in all_items(context, context.given.name):
        print_json(item)


async def _stop(context: Context) -> None:
    """Start no more items; items in progress are finished."""
    batch = (await _stub(context).StopBatch(context.request(pb.StopBatchRequest))).batch
    context.print_value(batch, f"{batch.name} is {state_word(batch)}")


async def _resume(context: Context) -> int:
    """Continue a batch, and wait for the end."""
    given = context.given
    await _check_page(context)
    request = context.request(
        pb.ResumeBatchRequest,
        budget_micro_usd=given.budget,
        worker_count=given.workers,
        retries_failed=given.retry_failed,
    )
    return await _finish(context, (await _stub(context).ResumeBatch(request)).batch)


def _distributions(context: Context) -> None:
    """List distributions of toolsets, with each toolset's chance in percent."""
    context.print_list(list_distributions(context.settings.home), DISTRIBUTION, "")


async def _remove(context: Context) -> None:
    """Remove a batch and its records; the sessions of its items stay."""
    await _stub(context).DeleteBatch(context.request(pb.DeleteBatchRequest))
    say(f"{context.given.name} is removed")


def _stub(context: Context) -> BatchServiceStub:
    return context.stub(BatchServiceStub)


_NAME = arg("NAME", "name of the batch")
_CALLED = ("scheduler", "agent")
_HTML = arg("--html FILE", "also write the report with plots as a page", Path)
_SEED = up_to(INT64)

COMMAND = Command(
    EXAMPLES,
    actions=(
        action(
            _run,
            arg("DATASET", "JSONL file with the prompts", Path),
            arg("--run NAME", "name of the batch", field="name", required=True),
            creation.WORKERS,
            OneOf(
                (
                    arg(
                        "--distribution NAME",
                        "draw each item's toolsets from it; see hermes batch distributions",
                        default=DEFAULT,
                    ),
                    arg("--toolsets LIST", "give every item these toolsets, such as web,file"),
                )
            ),
            arg("--seed N", "seed for drawing toolsets (0)", _SEED, default=0),
            *creation.HOW,
            creation.BUDGET,
            flag("--skip-invalid", "leave out lines that cannot be used", field="skip_invalid"),
            _HTML,
            JSON_OBJECT,
            services=_CALLED,
            started=process.ALL,
        ),
        action(_list, limit(1000), JSON_LIST),
        action(_show, _NAME, _HTML, JSON_OBJECT),
        action(_items, _NAME),
        action(export, _NAME, *EXPORT_OPTIONS, services=_CALLED, started=process.ALL),
        action(_stop, _NAME, JSON_OBJECT),
        action(
            _resume,
            _NAME,
            flag("--retry-failed", "try failed items again", field="retry_failed"),
            arg("--workers N", "items to run in parallel from now on", up_to(256, 1)),
            creation.BUDGET,
            _HTML,
            JSON_OBJECT,
            services=_CALLED,
            started=process.ALL,
        ),
        action(_remove, _NAME),
        action(_distributions, JSON_LIST, services=()),
    ),
    services=("scheduler",),
)
