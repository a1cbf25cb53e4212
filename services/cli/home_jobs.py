"""The jobs of a home that is taken: they run here from then on, or not at all."""

import asyncio

from hermes.scheduler.v1 import job_file_pb2 as pb
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.channels import Channels
from services.cli.home_source import Source, located
from services.home_jobs import JOBS, held_by, scripts_of


class Jobs:
    """The jobs of each profile, and what became of them."""

    def __init__(self, channels: Channels, source: Source, *, starts: bool, dry_run: bool) -> None:
        self.found: list[pb.ImportedJob] = []
        self._channels = channels
        self._source = source
        self._starts = starts
        self._dry_run = dry_run

    async def leave(self) -> None:
        """Have no scheduler take them later, where they are not to run here."""
        holder = await asyncio.to_thread(held_by, self._source.root)
        if holder and self._starts:
            why = f"another program runs the jobs of that home ({holder} is locked)"
            left = pb.ImportedJob(name=JOBS, outcome=pb.IMPORT_OUTCOME_LEFT, notes=[why])
            self.found += [left] if self._source.has(JOBS) else []
            self._starts = False
        if not self._starts and not self._dry_run:
            for profile in self._profiles():
                await self._ask(pb.ImportJobsRequest(profile=profile, closes_home=True))

    async def take(self) -> None:
        """Have them run here, as far as they are to."""
        for file in self._source.files:
            if file.path != JOBS or not self._starts:
                continue
            folder = (self._source.root / located(file.profile, self._source.own, JOBS)).parents[1]
            request = pb.ImportJobsRequest(
                profile=file.profile,
                document=b"".join([piece async for piece in self._source.read(file)]),
                time_zone=await asyncio.to_thread(self._source.time_zone, file.profile),
                scripts=await asyncio.to_thread(scripts_of, folder),
                dry_run=self._dry_run,
                closes_home=True,
            )
            self.found += await self._ask(request)

    def _profiles(self) -> list[str]:
        return [file.profile for file in self._source.files if file.path == JOBS]

    async def _ask(self, request: pb.ImportJobsRequest) -> list[pb.ImportedJob]:
        stub = JobServiceStub(self._channels.to("scheduler"))
        return list((await stub.ImportJobs(request)).jobs)
