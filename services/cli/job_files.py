"""Jobs as files: taking those of a home's `cron/jobs.json`, and writing such a file."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.scheduler.v1 import job_file_pb2 as pb
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli.connection import connected, has_services, start_command
from services.cli.console import EXIT_FAILURE, complain, counted, print_json, printable, say
from services.cli.standard_input import STANDARD, read_up_to
from services.config import Settings
from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from services.home import replace_file
from services.home_jobs import held_by, scripts_of, zone_of

MAX_FILE_BYTES = 3 * 1024 * 1024
_CRON = "cron"


async def take(settings: Settings, arguments: argparse.Namespace) -> int:
    """Take the jobs of a file."""
    path: Path = arguments.file.expanduser()
    document = await asyncio.to_thread(_read, path)
    home = await asyncio.to_thread(_home_of, path)
    starts = not (arguments.paused or arguments.dry_run)
    holder = await asyncio.to_thread(held_by, home) if home is not None and starts else ""
    if holder:
        raise FailedPrecondition(
            f"another program runs the jobs of {home} ({holder} is locked); stop it, "
            "or take them as paused ones with --paused"
        )
    zone = arguments.time_zone or ""
    if home is not None and not zone:
        zone = await asyncio.to_thread(zone_of, home)
    runs = await has_services(settings, ("scheduler",))
    # The agent looks through what is asked of it.
    async with connected(settings, ("scheduler", "agent")) as channels:
        request = pb.ImportJobsRequest(
            profile=arguments.profile or "",
            document=document,
            time_zone=zone,
            scripts=await asyncio.to_thread(scripts_of, home) if home is not None else {},
            is_paused=arguments.paused,
            dry_run=arguments.dry_run,
        )
        jobs = (await JobServiceStub(channels.to("scheduler")).ImportJobs(request)).jobs
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, "jobs": list(map(described, jobs))})
    else:
        _say(jobs, dry_run=arguments.dry_run)
        if not runs and not arguments.dry_run and any(map(is_here, jobs)):
            complain(f"jobs run while hermes is running; start it with: {start_command(settings)}")
    return 0 if all(map(is_here, jobs)) else EXIT_FAILURE


async def give(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write the jobs into a file, or to standard output."""
    path: Path | None = arguments.file and arguments.file.expanduser()
    path = None if path == STANDARD else path
    if path is not None and not arguments.overwrite and await asyncio.to_thread(path.exists):
        raise AlreadyExists(f"{path} is there already; choose another file, or say --overwrite")
    async with connected(settings, ("scheduler",)) as channels:
        request = pb.ExportJobsRequest(profile=arguments.profile or "")
        answer = await JobServiceStub(channels.to("scheduler")).ExportJobs(request)
    if path is None:
        sys.stdout.write(answer.document.decode())
        return 0
    await asyncio.to_thread(replace_file, path, answer.document, 0o600)
    if arguments.json:
        print_json({"file": str(path), "jobs": answer.job_count})
    else:
        say(printable(f"{path} has {counted(answer.job_count, 'job')}"))
    return 0


def described(job: pb.ImportedJob) -> dict[str, Any]:
    """What became of a job, for a script."""
    outcome = pb.ImportOutcome.Name(job.outcome).removeprefix("IMPORT_OUTCOME_").lower()
    return {
        "job_id": job.job_id or None,
        "name": job.name,
        "outcome": outcome,
        "notes": list(job.notes),
    }


def is_here(job: pb.ImportedJob) -> bool:
    """Whether a job of a file is one here now."""
    return job.outcome in (pb.IMPORT_OUTCOME_TAKEN, pb.IMPORT_OUTCOME_PRESENT)


def note_of(job: pb.ImportedJob) -> str:
    """What a person should know of a job in one line; empty where there is nothing."""
    if not job.notes:
        return ""
    lead = f"job {job.name}" if is_here(job) else f"not taken: {job.name}"
    return printable(f"{lead}: {'; '.join(job.notes)}")


def _say(jobs: Sequence[pb.ImportedJob], *, dry_run: bool) -> None:
    counts = {
        "new": sum(job.outcome == pb.IMPORT_OUTCOME_TAKEN for job in jobs),
        "there already": sum(job.outcome == pb.IMPORT_OUTCOME_PRESENT for job in jobs),
        "not taken": sum(not is_here(job) for job in jobs),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    say(f"{'would take ' if dry_run else ''}jobs: {told}")
    for line in filter(None, map(note_of, jobs)):
        say(line)


def _read(path: Path) -> bytes:
    try:
        data = read_up_to(path, MAX_FILE_BYTES)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidArgument(f"{path} has more than {MAX_FILE_BYTES} bytes; take it in parts")
    return data


def _home_of(path: Path) -> Path | None:
    """The home whose file of jobs it is; None where it is a file alone."""
    folder = path.resolve().parent
    return folder.parent if folder.name == _CRON and path != STANDARD else None
