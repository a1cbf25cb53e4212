"""A run that is waited for."""

import argparse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio

from hermes.scheduler.v1 import job_pb2_grpc, run_pb2
from services.addresses import UnixAddress
from services.auth import Identity
from services.channels import Channels
from services.cli.command import Context
from services.cli.job_runs import watch_to_end


class Restarting(job_pb2_grpc.JobServiceServicer):
    """A scheduler that goes away while somebody watches a run, and comes back."""

    def __init__(self) -> None:
        self.watched = 0

    async def WatchRun(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the base's
        self.watched += 1
        run = run_pb2.Run(run_id=request.run_id, attempt=self.watched)
        if self.watched == 3:
            run.finish_time.GetCurrentTime()
        yield run_pb2.WatchRunResponse(run=run)
        if self.watched == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "it stops")


async def test_a_run_is_waited_for_over_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    address, servicer = UnixAddress(tmp_path / "scheduler.sock"), cast("Any", Restarting)()
    server = grpc.aio.server()
    job_pb2_grpc.add_JobServiceServicer_to_server(servicer, server)
    server.add_insecure_port(address.target)
    await server.start()
    async with Channels(Identity.OPERATOR, {"scheduler": address}) as channels:
        context = Context(argparse.Namespace(profile=None), channels)
        run = await watch_to_end(context, run_pb2.Run(run_id="run_1"), "UTC")
    assert (run.run_id, run.attempt, servicer.watched) == ("run_1", 3, 3)
    await server.stop(None)
