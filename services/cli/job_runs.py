"""Running jobs now, and seeing what came of their runs."""

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from time import monotonic

import grpc
import grpc.aio

from hermes.scheduler.v1 import run_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli import process
from services.cli.connection import connected, has_services, start_command
from services.cli.console import EXIT_FAILURE, complain, print_json, printable, say
from services.cli.job_lookup import Jobs
from services.cli.job_view import described_run, run_state_of, show_runs, waiting
from services.config import Settings
from services.ids import new_id
from services.lifecycle import Workers
from services.streams import open_stream

_TICK_S = 1.0
_AGAIN_S = 0.5
_PATIENCE_S = 30.0
"""How long a scheduler may be away that is watched."""
_STARTS = "its turn has not started"
_DOING = {
    run_pb2.RUN_STATE_CLAIMED: _STARTS,
    run_pb2.RUN_STATE_RUNNING: "the agent works on it",
    run_pb2.RUN_STATE_DELIVERING: "its output is being delivered",
}

_IN_VAIN = (run_pb2.RUN_STATE_FAILED, run_pb2.RUN_STATE_CANCELLED)
"""How runs end that have not done what they were for."""


async def begin(settings: Settings, arguments: argparse.Namespace) -> int:
    """Run a job now; unless told otherwise, wait until the run has ended."""
    waits = not arguments.no_wait
    here = not await has_services(settings, ("scheduler",))
    services = process.ALL if waits and here else ("scheduler",)
    async with connected(settings, services) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        job = await jobs.find(arguments.job)
        request = run_pb2.RunJobRequest(
            job_id=job.job_id, profile=jobs.profile, run_id=new_id("run")
        )
        run = (await jobs.stub.RunJob(request)).run
        if waits:
            try:
                run = await _ended(jobs, run, job.time_zone)
            except asyncio.CancelledError:
                again = f"goes on when hermes runs again ({start_command(settings)})"
                how = again if here else "goes on"
                complain(f"run {run.run_id} {how}; see it with: {_see(run)}")
                raise
    if arguments.json:
        print_json(described_run(run, output=waits))
    elif waits:
        _tell(run, job.time_zone)
    else:
        say(f"{run.run_id}  see it with: {_see(run)}")
        if here:
            complain(f"it runs while hermes is running; start it with: {start_command(settings)}")
    return EXIT_FAILURE if run.state in _IN_VAIN else 0


async def show(settings: Settings, arguments: argparse.Namespace) -> int:
    """The runs of a job, or one of them."""
    async with connected(settings, ("scheduler",)) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        job = await jobs.find(arguments.job)
        if arguments.run:
            run = await jobs.find_run(job, arguments.run)
            _show_one(run, job.time_zone, arguments)
            return 0
        runs = await jobs.runs(job.job_id, arguments.limit)
    if arguments.json:
        print_json([described_run(run, output=False) for run in runs])
    elif runs:
        show_runs(runs, job.time_zone)
    else:
        say(printable(f"{job.name} has not run yet; run it now with: hermes jobs run {job.job_id}"))
    return 0


def _show_one(run: run_pb2.Run, zone: str, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(described_run(run, output=True))
        return
    show_runs([run], zone)
    if run.session_id:
        say(f"session  {run.session_id}")
    say("")
    _tell(run, zone)


def _tell(run: run_pb2.Run, zone: str) -> None:
    """What came of a run: the output, and on standard error what went wrong."""
    if run.output:
        say(printable(run.output))
    elif run.finish_time.seconds and not run.error:
        complain("the run had nothing to say")
    elif not run.finish_time.seconds:
        doing = waiting(run, zone) or _DOING.get(run.state, run_state_of(run.state))
        complain(f"the run has not ended: {doing}")
    if run.error:
        complain(f"{_what_failed(run)}: {run.error}")
    if run.delivery_error:
        complain(f"its output could not be delivered: {run.delivery_error}")


def _what_failed(run: run_pb2.Run) -> str:
    if not run.finish_time.seconds:
        return "its last attempt failed"
    return f"the run {'was stopped' if run.state == run_pb2.RUN_STATE_CANCELLED else 'failed'}"


def _see(run: run_pb2.Run) -> str:
    return f"hermes jobs runs {run.job_id} {run.run_id}"


async def _ended(jobs: Jobs, run: run_pb2.Run, zone: str) -> run_pb2.Run:
    """Watch a run to its end."""
    latest = run
    async with _progress(zone) as progress, aclosing(_states(jobs, run.run_id)) as states:
        async for state in states:
            latest = progress.run = state
    return latest


async def _states(jobs: Jobs, run_id: str) -> AsyncGenerator[run_pb2.Run]:
    """A run as it is until it has ended, also through a scheduler that starts anew."""
    request = run_pb2.WatchRunRequest(run_id=run_id, profile=jobs.profile)
    seen_at, has_ended = monotonic(), False
    while not has_ended:
        try:
            async with open_stream(jobs.stub.WatchRun(request)) as call:
                async for answer in call:
                    seen_at, has_ended = monotonic(), answer.run.finish_time.seconds > 0
                    yield answer.run
        except grpc.aio.AioRpcError as error:
            is_away = error.code() is grpc.StatusCode.UNAVAILABLE
            if not is_away or monotonic() - seen_at > _PATIENCE_S:
                raise
            await asyncio.sleep(_AGAIN_S)


class _Progress:
    """What a run does, and for how long, on one line of a terminal that is gone in the end."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self.run = run_pb2.Run(state=run_pb2.RUN_STATE_CLAIMED)
        self._began = monotonic()

    async def show(self) -> None:
        """Show it until cancelled."""
        while True:
            waits = waiting(self.run, self._zone)
            doing = waits or _DOING.get(self.run.state, "")
            again = f", attempt {self.run.attempt}" if self.run.attempt > 1 and not waits else ""
            self._write(f"{doing}{again}  {monotonic() - self._began:.0f} s")
            await asyncio.sleep(_TICK_S)

    def clear(self) -> None:
        """Leave nothing of it."""
        self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


@asynccontextmanager
async def _progress(zone: str) -> AsyncGenerator[_Progress]:
    progress = _Progress(zone)
    if not sys.stderr.isatty():
        yield progress
        return
    async with Workers() as workers:
        showing = workers.start("progress", progress.show())
        try:
            yield progress
        finally:
            showing.cancel()
            progress.clear()
