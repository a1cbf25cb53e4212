"""Import all files of a home, or export them to a folder."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from hermes.agent.v1 import home_pb2
from hermes.agent.v1.home_pb2_grpc import HomeServiceStub
from hermes.scheduler.v1 import job_file_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.amounts import plural
from services.cli.command import (
    DRY_RUN,
    JSON_OBJECT,
    Argument,
    Command,
    Context,
    OneOf,
    action,
    arg,
    choice,
    flag,
)
from services.cli.connection import connected, has_services
from services.cli.console import StatusLine, complain, say
from services.cli.failures import explain
from services.cli.home.folders import Source, Target
from services.cli.jobs.files import is_here, note_of
from services.cli.output import print_json
from services.errors import AlreadyExists, HermesError, InvalidArgument, Reason, reason_of
from services.home.files import HomeFile, explain_providers
from services.home.jobs import JOBS, held_by, scripts_of
from services.rpc.streams import open_stream

EXAMPLES = """\
examples:
  hermes home import ~/backup/hermes --dry-run
  hermes home import ~/backup/hermes
  hermes home import ~/backup/hermes --keep --without sandboxes
  hermes home import /mnt/old/.hermes --into ann
  hermes home export ~/backup/hermes
  hermes home export ~/backup/hermes --with-secrets
  hermes home export /tmp/ann --from ann --json"""

_READ_AT_START = ("config.yaml", ".env")
_COUNTS = {"added": "new", "replaced": "replaced", "kept": "kept", "unchanged": "unchanged"}
"""Outcomes for files, in JSON and for people."""


async def _import(context: Context) -> None:
    """Import all files and jobs of a home; on an error, import none."""
    given, settings = context.given, context.settings
    source = Source.find(given.folder, given.into or settings.profile, given.without)
    if _is_same(given.folder, settings.home.root):
        raise InvalidArgument(f"{given.folder} is the home in use; choose another folder")
    files = [file for file in source.files if file.path == JOBS]
    holder = "" if given.no_jobs or not files else held_by(source.root)
    start = not given.no_jobs and not holder
    is_running = await has_services(settings, ("agent",))
    async with connected(settings, ("agent", "scheduler") if files else ("agent",)) as channels:
        if not start and not given.dry_run:
            # A starting scheduler imports the jobs in its home.
            for file in files:
                closing = job_file_pb2.ImportJobsRequest(profile=file.profile, closes_home=True)
                await JobServiceStub(channels.to("scheduler")).ImportJobs(closing)
        last = home_pb2.ImportHomeRequest(
            finish=True, dry_run=given.dry_run, existing=given.existing
        )
        taken = await _send(HomeServiceStub(channels.to("agent")), source, last)
        jobs = list[job_file_pb2.ImportedJob]()
        for file in files if start else ():
            request = _jobs_request(source, file, dry_run=given.dry_run)
            jobs += (await JobServiceStub(channels.to("scheduler")).ImportJobs(request)).jobs
    if holder:
        why = f"another program runs the jobs of that home ({holder} is locked)"
        left = job_file_pb2.IMPORT_OUTCOME_LEFT
        jobs.append(job_file_pb2.ImportedJob(name=JOBS, outcome=left, notes=[why]))
    left_out, providers = [*taken.left_out, *source.left_out], source.memory_providers()
    if given.json:
        more = {"left_out": left_out, "memory_providers": providers}
        print_json({"dry_run": given.dry_run, **_imported(taken, jobs), **more})
        return
    _say_imported(context, taken, jobs)
    _say_left_out(left_out)
    if providers:
        complain(explain_providers(providers))
    if is_running and not given.dry_run and any(map(source.has, _READ_AT_START)):
        complain("restart the services, which read config.yaml and .env only at the start")


async def _send(
    stub: HomeServiceStub, source: Source, last: home_pb2.ImportHomeRequest
) -> home_pb2.ImportHomeResponse:
    """Send the files; the last request is left out if one cannot be read."""
    problems = list[HermesError]()

    async def requests() -> AsyncGenerator[home_pb2.ImportHomeRequest]:
        try:
            for request in _requests(source):
                yield request
            yield last
        except HermesError as problem:
            problems.append(problem)

    try:
        return await stub.ImportHome(requests())
    except grpc.aio.AioRpcError as error:
        if problems:
            raise problems[0] from None
        if reason_of(error) is Reason.ALREADY_EXISTS:
            raise AlreadyExists(f"{explain(error)}; use --keep or --overwrite") from None
        raise


def _requests(source: Source) -> Iterator[home_pb2.ImportHomeRequest]:
    with StatusLine() as status:
        for number, file in enumerate(source.files, 1):
            status.show(f"reading file {number} of {len(source.files)}")
            head = home_pb2.HomeFile(profile=file.profile, path=file.path, mode=file.mode)
            yield home_pb2.ImportHomeRequest(file=head)
            for piece in source.read(file):
                yield home_pb2.ImportHomeRequest(data=piece)


def _jobs_request(
    source: Source, file: HomeFile, *, dry_run: bool
) -> job_file_pb2.ImportJobsRequest:
    return job_file_pb2.ImportJobsRequest(
        profile=file.profile,
        document=b"".join(source.read(file)),
        time_zone=source.time_zone(file.profile),
        scripts=scripts_of(source.place(file).parents[1]),
        dry_run=dry_run,
        closes_home=True,
    )


def _is_same(left: Path, right: Path) -> bool:
    return left.exists() and right.exists() and left.samefile(right)


def _imported(
    taken: home_pb2.ImportHomeResponse, jobs: Sequence[job_file_pb2.ImportedJob]
) -> dict[str, Any]:
    here = [job for job in jobs if is_here(job)]
    return {
        "files": {name: getattr(taken, f"{name}_count") for name in _COUNTS},
        "sessions": taken.session_count,
        "jobs": [job.job_id for job in here],
        "jobs_not_run": [
            {"name": job.name, "reason": "; ".join(job.notes)} for job in jobs if job not in here
        ],
        "job_notes": [
            {"job_id": job.job_id, "name": job.name, "notes": list(job.notes)}
            for job in here
            if job.notes
        ],
    }


def _say_imported(
    context: Context, taken: home_pb2.ImportHomeResponse, jobs: Sequence[job_file_pb2.ImportedJob]
) -> None:
    took = "would import" if context.given.dry_run else "imported"
    counts = {what: getattr(taken, f"{name}_count") for name, what in _COUNTS.items()}
    text = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    say(f"{took} files of {context.given.folder}: {text}")
    if taken.session_count:
        say(f"imported {plural(taken.session_count, 'session')}")
    if here := sum(map(is_here, jobs)):
        say(f"{took} {plural(here, 'job')}")
    for line in filter(None, map(note_of, jobs)):
        say(line)


def _say_left_out(left_out: Iterable[home_pb2.HomeFileLeftOut]) -> None:
    for one in left_out:
        complain(f"skipped {one.path} ({one.profile}): {one.reason}")


async def _export(context: Context) -> None:
    """Export all files of the home to a folder."""
    given, settings = context.given, context.settings
    # The home of a single profile has no folder `profiles`.
    own = given.source or settings.profile
    wanted = [own] if given.source or own != "default" else []
    target, home = Target(given.folder, own, given.without), settings.home.root.resolve()
    if home in (target.folder, *target.folder.parents):
        told = f"{target.folder} is inside the home; choose a folder outside"
        raise InvalidArgument(told)
    if not given.overwrite:
        target.check(", or use --overwrite")
    request = home_pb2.ExportHomeRequest(profiles=wanted, with_secrets=given.with_secrets)
    async with connected(settings, ("agent",)) as channels:
        call = HomeServiceStub(channels.to("agent")).ExportHome(request)
        async with open_stream(call):
            summary = await _receive(call, target)
    if given.json:
        profiles, count = list(summary.profiles), len(target.modes)
        told = {"folder": str(target.folder), "profiles": profiles, "files": count}
        print_json({**told, "left_out": summary.left_out})
        return
    files, profiles = plural(len(target.modes), "file"), plural(len(summary.profiles), "profile")
    say(f"exported {files} of {profiles} to {target.folder}")
    _say_left_out(summary.left_out)


async def _receive(call: Any, target: Target) -> home_pb2.ExportHomeSummary:
    summary = home_pb2.ExportHomeSummary()
    with target.replace_files(), StatusLine() as status:
        async for answer in call:
            if answer.HasField("summary"):
                summary = answer.summary
            if answer.HasField("file"):
                target.begin(answer.file.profile, answer.file.path, answer.file.mode)
                status.show(f"writing file {len(target.modes)} of {summary.file_count}")
            target.write(answer.data)
    return summary


def _existing(name: str, kind: "home_pb2.ExistingFiles.ValueType", meaning: str) -> Argument:
    text = f"{meaning} existing files that differ"
    return choice(name, text, "existing", kind, home_pb2.EXISTING_FILES_REFUSE)


_WITHOUT = arg(
    "--without PATH",
    "skip this file or folder, such as 'sessions/*'; repeatable",
    action="append",
    default=[],
)
COMMAND = Command(
    EXAMPLES,
    actions=(
        action(
            _import,
            arg("DIR", "home to import; it stays as it is", Path, field="folder"),
            arg("--into PROFILE", "import into this profile", default=""),
            OneOf(
                (
                    _existing("--keep", home_pb2.EXISTING_FILES_KEEP, "keep"),
                    _existing("--overwrite", home_pb2.EXISTING_FILES_REPLACE, "replace"),
                )
            ),
            _WITHOUT,
            flag("--no-jobs", "do not start its jobs here"),
            DRY_RUN,
            JSON_OBJECT,
        ),
        action(
            _export,
            arg("DIR", "new or empty folder", Path, field="folder"),
            arg("--from PROFILE", "export only this profile", field="source", default=""),
            flag("--with-secrets", "include .env, auth.json and whatsapp/session"),
            flag("--overwrite", "write into a folder that is not empty"),
            _WITHOUT,
            JSON_OBJECT,
        ),
    ),
)
