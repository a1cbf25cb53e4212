"""`hermes home import` and `hermes home export`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from hermes.agent.v1 import home_pb2
from hermes.agent.v1.home_pb2_grpc import HomeServiceStub
from hermes.scheduler.v1 import job_file_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.amounts import plural
from services.channels import Channels
from services.cli.command import DRY_RUN, JSON_OBJECT, Action, Command, Context, OneOf, arg, flag
from services.cli.connection import connected, has_services
from services.cli.console import StatusLine, complain, print_json, say
from services.cli.failures import explain
from services.cli.home.folders import Source, Target
from services.cli.job_files import is_here, note_of
from services.cli.output import Column, describe
from services.errors import AlreadyExists, HermesError, InvalidArgument, Reason, reason_of
from services.home_jobs import JOBS, held_by, scripts_of
from services.home_plugins import told_of
from services.streams import open_stream

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
_LEFT_OUT = (Column("profile"), Column("path"), Column("reason"))


# ---- import


async def _import(context: Context) -> None:
    given, settings = context.given, context.settings
    own = given.into or settings.profile
    source = await asyncio.to_thread(Source.find, given.folder, own, given.without)
    if await asyncio.to_thread(_is_same, given.folder, settings.home.root):
        raise InvalidArgument(f"{given.folder} is the home in use; there is nothing to take")
    is_running = await has_services(settings, ("agent",))
    needed = ("agent", "scheduler") if source.has(JOBS) else ("agent",)
    async with connected(settings, needed) as channels:
        last = home_pb2.ImportHomeRequest(
            finish=True, dry_run=given.dry_run, existing=given.existing
        )
        jobs = _Jobs(channels, source, starts=not given.no_jobs, dry_run=given.dry_run)
        # A scheduler that starts takes the jobs that it finds in its home.
        await jobs.close()
        taken = await _send(HomeServiceStub(channels.to("agent")), source, last)
        await jobs.take()
    left_out = [*(describe(one, _LEFT_OUT) for one in taken.left_out), *source.left_out]
    providers = source.memory_providers()
    if given.json:
        told = _imported(taken, jobs.found, dry_run=given.dry_run)
        print_json(told | {"left_out": left_out, "memory_providers": list(providers)})
        return
    _say_imported(context, taken, jobs.found)
    _say_left_out(left_out)
    if providers:
        complain(told_of(providers))
    if is_running and not given.dry_run and any(map(source.has, _READ_AT_START)):
        complain("config.yaml and .env are read when services start; start them anew")


class _Sending:
    """The files on their way; the last request does not follow where one cannot be read."""

    def __init__(self, source: Source, last: home_pb2.ImportHomeRequest) -> None:
        self.problem: HermesError | None = None
        self._source = source
        self._last = last

    async def requests(self) -> AsyncGenerator[home_pb2.ImportHomeRequest]:
        """The requests of ImportHome."""
        total = len(self._source.files)
        try:
            with StatusLine() as status:
                for number, file in enumerate(self._source.files, 1):
                    status.show(f"reading file {number} of {total}")
                    head = home_pb2.HomeFile(profile=file.profile, path=file.path, mode=file.mode)
                    yield home_pb2.ImportHomeRequest(file=head)
                    async for piece in self._source.read(file):
                        yield home_pb2.ImportHomeRequest(data=piece)
            yield self._last
        except HermesError as problem:
            self.problem = problem


async def _send(
    stub: HomeServiceStub, source: Source, last: home_pb2.ImportHomeRequest
) -> home_pb2.ImportHomeResponse:
    sending = _Sending(source, last)
    try:
        return await stub.ImportHome(sending.requests())
    except grpc.aio.AioRpcError as error:
        if sending.problem is not None:
            raise sending.problem from None
        if reason_of(error) is Reason.ALREADY_EXISTS:
            raise AlreadyExists(f"{explain(error)}; say --keep or --overwrite") from None
        raise


class _Jobs:
    """The jobs of a home that is taken: they run here from then on, or not at all."""

    def __init__(self, channels: Channels, source: Source, *, starts: bool, dry_run: bool) -> None:
        self.found: list[job_file_pb2.ImportedJob] = []
        self._channels = channels
        self._source = source
        self._files = [file for file in source.files if file.path == JOBS]
        self._starts = starts
        self._dry_run = dry_run

    async def close(self) -> None:
        """Keep the scheduler from taking them later, where they are not to run here."""
        holder = await asyncio.to_thread(held_by, self._source.root)
        if holder and self._starts:
            why = f"another program runs the jobs of that home ({holder} is locked)"
            left = job_file_pb2.IMPORT_OUTCOME_LEFT
            if self._files:
                self.found.append(job_file_pb2.ImportedJob(name=JOBS, outcome=left, notes=[why]))
            self._starts = False
        if not self._starts and not self._dry_run:
            for file in self._files:
                await self._ask(profile=file.profile)

    async def take(self) -> None:
        """Have them run here, as far as they are to."""
        for file in self._files if self._starts else ():
            profile_folder = self._source.place(file).parents[1]
            self.found += await self._ask(
                profile=file.profile,
                document=b"".join([piece async for piece in self._source.read(file)]),
                time_zone=await asyncio.to_thread(self._source.time_zone, file.profile),
                scripts=await asyncio.to_thread(scripts_of, profile_folder),
                dry_run=self._dry_run,
            )

    async def _ask(self, **fields: Any) -> Sequence[job_file_pb2.ImportedJob]:
        request = job_file_pb2.ImportJobsRequest(closes_home=True, **fields)
        stub = JobServiceStub(self._channels.to("scheduler"))
        return (await stub.ImportJobs(request)).jobs


def _is_same(left: Path, right: Path) -> bool:
    return left.exists() and right.exists() and left.samefile(right)


def _imported(
    taken: home_pb2.ImportHomeResponse,
    jobs: Sequence[job_file_pb2.ImportedJob],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    here = [job for job in jobs if is_here(job)]
    return {
        "dry_run": dry_run,
        "files": {
            "added": taken.added_count,
            "replaced": taken.replaced_count,
            "kept": taken.kept_count,
            "unchanged": taken.unchanged_count,
        },
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
    context: Context,
    taken: home_pb2.ImportHomeResponse,
    jobs: Sequence[job_file_pb2.ImportedJob],
) -> None:
    counts = {
        "new": taken.added_count,
        "replaced": taken.replaced_count,
        "kept as they were here": taken.kept_count,
        "the same already": taken.unchanged_count,
    }
    took = "would take" if context.given.dry_run else "took"
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    say(f"{took} files of {context.given.folder}: {told}")
    if taken.session_count:
        say(f"took {plural(taken.session_count, 'session')}")
    if here := sum(map(is_here, jobs)):
        say(f"{took} {plural(here, 'job')}")
    for line in filter(None, map(note_of, jobs)):
        say(line)


def _say_left_out(left_out: Sequence[dict[str, str]]) -> None:
    for one in left_out:
        complain(f"left out: {one['path']} ({one['profile']}): {one['reason']}")


# ---- export


async def _export(context: Context) -> None:
    given, settings = context.given, context.settings
    folder = await asyncio.to_thread(given.folder.resolve)
    home = await asyncio.to_thread(settings.home.root.resolve)
    if folder == home or home in folder.parents:
        raise InvalidArgument(f"{folder} is in the home itself; choose a folder outside of it")
    # On its own, the home of a profile has no folder `profiles`.
    own = given.source or settings.profile
    wanted = [own] if given.source or own != "default" else []
    target = await asyncio.to_thread(Target, folder, own, given.without, overwrite=given.overwrite)
    request = home_pb2.ExportHomeRequest(profiles=wanted, with_secrets=given.with_secrets)
    async with connected(settings, ("agent",)) as channels:
        call = HomeServiceStub(channels.to("agent")).ExportHome(request)
        async with open_stream(call):
            summary = await _receive(call, target)
    left_out = [describe(one, _LEFT_OUT) for one in summary.left_out]
    if given.json:
        profiles = list(summary.profiles)
        told = {"folder": str(folder), "profiles": profiles, "files": len(target.files)}
        print_json({**told, "left_out": left_out})
        return
    files, profiles = plural(len(target.files), "file"), plural(len(summary.profiles), "profile")
    say(f"{folder} has {files} of {profiles}")
    _say_left_out(left_out)


async def _receive(call: Any, target: Target) -> home_pb2.ExportHomeSummary:
    summary = home_pb2.ExportHomeSummary()
    try:
        await asyncio.to_thread(target.open)
        with StatusLine() as status:
            async for answer in call:
                if answer.HasField("summary"):
                    summary = answer.summary
                if answer.HasField("file"):
                    file = answer.file
                    await asyncio.to_thread(target.begin, file.profile, file.path, file.mode)
                    status.show(f"writing file {len(target.files)} of {summary.file_count}")
                await asyncio.to_thread(target.write, answer.data)
        await asyncio.to_thread(target.finish)
    finally:
        await asyncio.to_thread(target.close)
    return summary


# ---- the command


def _existing(name: str, kind: "home_pb2.ExistingFiles.ValueType", meaning: str) -> Any:
    refuse = home_pb2.EXISTING_FILES_REFUSE
    options = {"dest": "existing", "action": "store_const", "const": kind, "default": refuse}
    return arg(name, help=f"{meaning} files that are there with other content", **options)


_WITHOUT = arg(
    "--without",
    action="append",
    default=[],
    metavar="PATH",
    help="leave a file or folder out, such as image_cache or 'sessions/*'",
)
COMMAND = Command(
    EXAMPLES,
    actions=(
        Action(
            "import",
            "take every file of a home, all or none, and its jobs",
            _import,
            (
                arg("folder", type=Path, metavar="DIR", help="the home to take, left as it is"),
                arg(
                    "--into",
                    default="",
                    metavar="PROFILE",
                    help="take it as the home of this profile",
                ),
                OneOf(
                    (
                        _existing("--keep", home_pb2.EXISTING_FILES_KEEP, "keep"),
                        _existing("--overwrite", home_pb2.EXISTING_FILES_REPLACE, "replace"),
                    )
                ),
                _WITHOUT,
                flag("--no-jobs", "start none of its jobs here"),
                DRY_RUN,
                JSON_OBJECT,
            ),
        ),
        Action(
            "export",
            "write every file of the home into a folder",
            _export,
            (
                arg("folder", type=Path, metavar="DIR", help="a folder, new or empty"),
                arg(
                    "--from",
                    dest="source",
                    default="",
                    metavar="PROFILE",
                    help="only this profile's home",
                ),
                flag("--with-secrets", "also .env, auth.json and whatsapp/session"),
                flag("--overwrite", "into a folder that is not empty"),
                _WITHOUT,
                JSON_OBJECT,
            ),
        ),
    ),
)
