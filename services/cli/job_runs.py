"""Runs jobs now, and shows what came of their runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic

import grpc
import grpc.aio

from hermes.scheduler.v1 import job_pb2, run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli import process
from services.cli.command import Context, pages, pick
from services.cli.connection import has_services, start_command
from services.cli.console import EXIT_FAILURE, StatusLine, complain, print_json, printable, say
from services.cli.job_view import OUTPUT, RUN, run_list, waiting
from services.cli.output import describe, field_value, print_list
from services.errors import NotFound
from services.ids import new_id
from services.lifecycle import Workers
from services.streams import open_stream

KEPT_RUNS = 50
LATEST = "latest"
PAGE = 1000
_TICK_S = 1.0
_AGAIN_S = 0.5
_PATIENCE_S = 30.0
"""How long a scheduler may be away that is watched."""
_DOING = {
    run_pb2.RUN_STATE_CLAIMED: "its turn has not started",
    run_pb2.RUN_STATE_RUNNING: "the agent works on it",
    run_pb2.RUN_STATE_DELIVERING: "its output is being delivered",
}
_IN_VAIN = (run_pb2.RUN_STATE_FAILED, run_pb2.RUN_STATE_CANCELLED)
"""How runs end that have not done what they were for."""


async def all_jobs(context: Context) -> list[job_pb2.Job]:
    """Every job, the one due next first."""
    request = job_pb2.ListJobsRequest(profile=context.profile, page_size=PAGE)
    listing = pages(context.stub(JobServiceStub).ListJobs, request)
    return [job async for page in listing for job in page.jobs]


async def find_job(context: Context, named: str = "") -> job_pb2.Job:
    """The job that is meant, by default the one that was given."""
    return pick(
        named or context.given.job,
        await all_jobs(context),
        lambda job: job.job_id,
        names=lambda job: (job.name,),
        what="job",
        see="hermes jobs list",
        prefix="job_",
    )


async def run_job(context: Context) -> int:
    """Run a job now; unless told otherwise, wait until the run has ended."""
    here = not await has_services(context.settings, ("scheduler",))
    waits = not context.given.no_wait
    start = start_command(context.settings)

    async def begin(context: Context) -> int:
        job = await find_job(context)
        request = context.request(run_pb2.RunJobRequest, job_id=job.job_id, run_id=new_id("run"))
        run = (await context.stub(JobServiceStub).RunJob(request)).run
        if waits:
            try:
                run = await _ended(context, run, job.time_zone)
            except asyncio.CancelledError:
                how = f"goes on when hermes runs again ({start})" if here else "goes on"
                complain(f"run {run.run_id} {how}; see it with: {_see(run)}")
                raise
        if context.given.json:
            print_json(describe(run, (*RUN, OUTPUT) if waits else RUN))
        elif waits:
            _tell(run, job.time_zone)
        else:
            say(f"{run.run_id}  see it with: {_see(run)}")
            if here:
                complain(f"it runs while hermes is running; start it with: {start}")
        return EXIT_FAILURE if run.state in _IN_VAIN else 0

    return await context.run(begin, process.ALL if waits and here else ("scheduler",))


async def show_runs(context: Context) -> None:
    """The runs of a job, or one of them."""
    given = context.given
    job = await find_job(context)
    most = KEPT_RUNS if given.run else given.page_size
    request = context.request(run_pb2.ListRunsRequest, job_id=job.job_id, page_size=most)
    runs = (await context.stub(JobServiceStub).ListRuns(request)).runs
    if not given.run:
        empty = f"{job.name} has not run yet; run it now with: hermes jobs run {job.job_id}"
        columns = RUN if given.json else run_list(job.time_zone)
        context.print_list(runs, columns, printable(empty))
        return
    see = f"hermes jobs runs {job.job_id}"
    if given.run == LATEST and not runs:
        raise NotFound(f"{job.name} has not run yet; see {see}")
    named = runs[0].run_id if given.run == LATEST else given.run
    run = pick(named, runs, lambda run: run.run_id, what="run", see=see, prefix="run_")
    if given.json:
        print_json(describe(run, (*RUN, OUTPUT)))
        return
    print_list([run], run_list(job.time_zone), as_json=False, empty="")
    if run.session_id:
        say(f"session  {run.session_id}")
    say("")
    _tell(run, job.time_zone)


def _tell(run: run_pb2.Run, zone: str) -> None:
    """What came of a run: the output, and on standard error what went wrong."""
    has_ended = run.finish_time.seconds > 0
    if run.output:
        say(printable(run.output))
    elif not has_ended:
        doing = waiting(run, zone) or _DOING.get(run.state, field_value(run, "state"))
        complain(f"the run has not ended: {doing}")
    elif not run.error:
        complain("the run had nothing to say")
    if run.error:
        is_stopped = run.state == run_pb2.RUN_STATE_CANCELLED
        what = f"the run {'was stopped' if is_stopped else 'failed'}"
        complain(f"{what if has_ended else 'its last attempt failed'}: {run.error}")
    if run.delivery_error:
        complain(f"its output could not be delivered: {run.delivery_error}")


def _see(run: run_pb2.Run) -> str:
    return f"hermes jobs runs {run.job_id} {run.run_id}"


async def _ended(context: Context, run: run_pb2.Run, zone: str) -> run_pb2.Run:
    """Watch a run to its end, and say on a terminal what it does and for how long."""
    latest, began = run, monotonic()

    async def show(status: StatusLine) -> None:
        while True:
            waits = waiting(latest, zone)
            doing = waits or _DOING.get(latest.state, "")
            again = f", attempt {latest.attempt}" if latest.attempt > 1 and not waits else ""
            status.show(f"{doing}{again}  {monotonic() - began:.0f} s")
            await asyncio.sleep(_TICK_S)

    with StatusLine() as status:
        async with Workers() as workers, aclosing(_states(context, run.run_id)) as states:
            showing = workers.start("progress", show(status))
            try:
                async for state in states:
                    latest = state
            finally:
                showing.cancel()
    return latest


async def _states(context: Context, run_id: str) -> AsyncGenerator[run_pb2.Run]:
    """A run as it is until it has ended, also through a scheduler that starts anew."""
    request = run_pb2.WatchRunRequest(run_id=run_id, profile=context.profile)
    seen_at, has_ended = monotonic(), False
    while not has_ended:
        try:
            async with open_stream(context.stub(JobServiceStub).WatchRun(request)) as call:
                async for answer in call:
                    seen_at, has_ended = monotonic(), answer.run.finish_time.seconds > 0
                    yield answer.run
        except grpc.aio.AioRpcError as error:
            is_away = error.code() is grpc.StatusCode.UNAVAILABLE
            if not is_away or monotonic() - seen_at > _PATIENCE_S:
                raise
            await asyncio.sleep(_AGAIN_S)
