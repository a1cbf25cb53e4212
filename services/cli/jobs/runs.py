"""Runs jobs now, and shows the results."""

import asyncio
from contextlib import aclosing

import grpc.aio

from hermes.scheduler.v1 import job_pb2, run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli import process
from services.cli.command import Context, pages, pick
from services.cli.connection import has_services, start_command
from services.cli.console import EXIT_FAILURE, StatusLine, complain, printable, say
from services.cli.jobs.view import run_list, waiting
from services.cli.output import field_value, print_json, print_rows
from services.errors import HermesError, NotFound
from services.ids import new_id
from services.rpc.streams import resume

KEPT_RUNS = 50
LATEST = "latest"
PAGE = 1000
PATIENCE_S = 30.0
"""How long to wait for an absent scheduler."""
_DOING = {
    run_pb2.RUN_STATE_CLAIMED: "the turn has not started",
    run_pb2.RUN_STATE_RUNNING: "the agent is working",
    run_pb2.RUN_STATE_DELIVERING: "delivering the output",
}
_IN_VAIN = (run_pb2.RUN_STATE_FAILED, run_pb2.RUN_STATE_CANCELLED)


async def all_jobs(context: Context) -> list[job_pb2.Job]:
    """Return every job, next due first."""
    request = job_pb2.ListJobsRequest(profile=context.profile, page_size=PAGE)
    listing = pages(context.stub(JobServiceStub).ListJobs, request)
    return [job async for page in listing for job in page.jobs]


async def find_job(context: Context, named: str = "") -> job_pb2.Job:
    """Return the job that is named, by default in the arguments."""
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
    """Run a job now, and wait for the output."""
    here = not await has_services(context.settings, ("scheduler",))
    waits = not context.given.no_wait
    start = start_command(context.settings)

    async def begin(context: Context) -> int:
        job = await find_job(context)
        request = context.request(run_pb2.RunJobRequest, job_id=job.job_id, run_id=new_id("run"))
        run = (await context.stub(JobServiceStub).RunJob(request)).run
        if waits:
            try:
                run = await watch_to_end(context, run, job.time_zone)
            except (asyncio.CancelledError, grpc.aio.AioRpcError, HermesError):
                how = f"continues when hermes runs again ({start})" if here else "continues"
                complain(f"run {run.run_id} {how}; show it with: {_see(run)}")
                raise
        if context.given.json:
            print_json(run)
        elif waits:
            _tell(run, job.time_zone)
        else:
            say(f"{run.run_id}  show it with: {_see(run)}")
            if here:
                complain(f"jobs run only while hermes is running; start it with: {start}")
        return EXIT_FAILURE if run.state in _IN_VAIN else 0

    return await context.run(begin, process.ALL if waits and here else ("scheduler",))


async def show_runs(context: Context) -> None:
    """List the runs of a job, or show the output of one."""
    given = context.given
    job = await find_job(context)
    most = KEPT_RUNS if given.run else given.page_size
    request = context.request(run_pb2.ListRunsRequest, job_id=job.job_id, page_size=most)
    runs = (await context.stub(JobServiceStub).ListRuns(request)).runs
    if not given.run:
        empty = f"{job.name} has not run yet; run it now with: hermes jobs run {job.job_id}"
        context.print_list(runs, run_list(job.time_zone), printable(empty))
        return
    see = f"hermes jobs runs {job.job_id}"
    if given.run == LATEST and not runs:
        raise NotFound(f"{job.name} has not run yet; see {see}")
    named = runs[0].run_id if given.run == LATEST else given.run
    run = pick(named, runs, lambda run: run.run_id, what="run", see=see, prefix="run_")
    if given.json:
        print_json(run)
        return
    print_rows([run], run_list(job.time_zone))
    if run.session_id:
        say(f"session  {run.session_id}")
    say("")
    _tell(run, job.time_zone)


def _tell(run: run_pb2.Run, zone: str) -> None:
    """Show a run's output, and on standard error its failure."""
    has_ended = run.finish_time.seconds > 0
    if run.output:
        say(printable(run.output))
    elif not has_ended:
        doing = waiting(run, zone) or _DOING.get(run.state, field_value(run, "state"))
        complain(f"the run has not ended: {doing}")
    elif not run.error:
        complain("the run has no output")
    if run.error:
        is_stopped = run.state == run_pb2.RUN_STATE_CANCELLED
        what = f"the run {'was stopped' if is_stopped else 'failed'}"
        complain(f"{what if has_ended else 'its last attempt failed'}: {run.error}")
    if run.delivery_error:
        complain(f"the output was not delivered: {run.delivery_error}")


def _see(run: run_pb2.Run) -> str:
    return f"hermes jobs runs {run.job_id} {run.run_id}"


async def watch_to_end(context: Context, run: run_pb2.Run, zone: str) -> run_pb2.Run:
    """Watch a run to its end, also across restarts; show progress on a terminal."""
    request = context.request(run_pb2.WatchRunRequest, run_id=run.run_id)
    answers = resume(
        lambda: context.stub(JobServiceStub).WatchRun(request),
        lambda answer: answer.run.HasField("finish_time"),
        patience_s=PATIENCE_S,
    )
    with StatusLine() as status:
        async with aclosing(answers):
            async for answer in answers:
                run = answer.run
                doing = waiting(run, zone) or _DOING.get(run.state, "")
                attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
                status.show(doing if "attempt" in doing else f"{doing}{attempt}")
    return run
