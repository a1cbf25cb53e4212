"""Jobs as files: takes those of a home's `cron/jobs.json`, and writes such a file."""

import asyncio
import sys
from pathlib import Path

from hermes.scheduler.v1 import job_file_pb2 as pb
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.amounts import plural
from services.cli.command import DRY_RUN, JSON_OBJECT, Context, action, arg, flag
from services.cli.connection import has_services, start_command
from services.cli.console import EXIT_FAILURE, complain, printable, say
from services.cli.output import print_json
from services.cli.standard_input import STANDARD, read_limited
from services.config.sources import read_env_file, read_yaml
from services.errors import AlreadyExists, FailedPrecondition, InvalidArgument
from services.home.jobs import held_by, scripts_of
from services.home.paths import replace_file

MAX_FILE_BYTES = 3 * 1024 * 1024
_CRON = "cron"


async def _take(context: Context) -> int:
    """Import jobs from a file, such as cron/jobs.json of a home."""
    given, settings = context.given, context.settings
    path: Path = given.file.expanduser()
    document = await _read(path)
    home = await asyncio.to_thread(_home_of, path)
    zone, scripts = given.time_zone or "", dict[str, str]()
    if home is not None:
        starts = not (given.is_paused or given.dry_run)
        if starts and (holder := await asyncio.to_thread(held_by, home)):
            raise FailedPrecondition(
                f"another program runs the jobs of {home} ({holder} is locked); stop it, "
                "or import the jobs paused with --paused"
            )
        zone = zone or await asyncio.to_thread(zone_of, home)
        scripts = await asyncio.to_thread(scripts_of, home)
    request = context.request(
        pb.ImportJobsRequest, document=document, time_zone=zone, scripts=scripts
    )
    runs = await has_services(settings, ("scheduler",))

    async def take(context: Context) -> int:
        jobs = (await context.stub(JobServiceStub).ImportJobs(request)).jobs
        taken = [job for job in jobs if is_here(job)]
        if given.json:
            print_json({"dry_run": given.dry_run, "jobs": jobs})
            return 0 if len(taken) == len(jobs) else EXIT_FAILURE
        counts = {
            "new": sum(job.outcome == pb.IMPORT_OUTCOME_TAKEN for job in jobs),
            "already here": sum(job.outcome == pb.IMPORT_OUTCOME_PRESENT for job in jobs),
            "not imported": len(jobs) - len(taken),
        }
        text = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
        say(f"{'would import ' if given.dry_run else ''}jobs: {text}")
        for line in filter(None, map(note_of, jobs)):
            say(line)
        if taken and not runs and not given.dry_run:
            complain(
                f"jobs run only while hermes is running; start it with: {start_command(settings)}"
            )
        return 0 if len(taken) == len(jobs) else EXIT_FAILURE

    # The agent scans the prompts.
    return await context.run(take, ("scheduler", "agent"))


async def _give(context: Context) -> None:
    """Export all jobs to a file."""
    given = context.given
    path: Path | None = given.file and given.file.expanduser()
    path = None if path == STANDARD else path
    if path is not None and not given.overwrite and await asyncio.to_thread(path.exists):
        raise AlreadyExists(f"{path} exists already; choose another file, or use --overwrite")
    request = pb.ExportJobsRequest(profile=context.profile)
    answer = await context.stub(JobServiceStub).ExportJobs(request)
    if path is None:
        sys.stdout.buffer.write(answer.document)
        return
    await asyncio.to_thread(replace_file, path, answer.document, 0o600)
    text = f"exported {plural(answer.job_count, 'job')} to {path}"
    context.print_value({"file": str(path), "jobs": answer.job_count}, text)


def is_here(job: pb.ImportedJob) -> bool:
    """Return whether a job of a file exists here now."""
    return job.outcome in (pb.IMPORT_OUTCOME_TAKEN, pb.IMPORT_OUTCOME_PRESENT)


def note_of(job: pb.ImportedJob) -> str:
    """Return the remarks on a job in one line, or empty."""
    if not job.notes:
        return ""
    lead = f"job {job.name}" if is_here(job) else f"not imported: {job.name}"
    return printable(f"{lead}: {'; '.join(job.notes)}")


async def _read(path: Path) -> bytes:
    try:
        data = await read_limited(path, MAX_FILE_BYTES)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidArgument(f"{path} has more than {MAX_FILE_BYTES} bytes; split it")
    return data


def _home_of(path: Path) -> Path | None:
    """Return the home of a job file; None for a separate file."""
    folder = path.resolve().parent
    return folder.parent if folder.name == _CRON and path != STANDARD else None


_FILE = "file with jobs; - reads standard input"
ACTIONS = (
    action(
        _take,
        arg("FILE", _FILE, Path),
        arg("--time-zone ZONE", "time zone of schedules without one (that of the file's home)"),
        flag("--paused", "import all jobs paused", field="is_paused"),
        DRY_RUN,
        JSON_OBJECT,
        name="import",
        services=(),
    ),
    action(
        _give,
        arg("FILE?", "file to write (standard output)", Path),
        flag("--overwrite", "replace an existing file"),
        JSON_OBJECT,
        name="export",
    ),
)


def zone_of(root: Path) -> str:
    """Return the time zone of another home, as Hermes would read it there."""
    env_file = read_env_file(root / ".env", {})
    set_here = env_file.values.get("HERMES_TIMEZONE")
    found = set_here if set_here and set_here.value else None
    found = found or read_yaml(root / "config.yaml", env_file.texts).find("timezone")
    return found.value if found is not None and isinstance(found.value, str) else ""
