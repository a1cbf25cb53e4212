"""Move a home: take every file of one, or write them all into a folder, byte for byte."""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from hermes.agent.v1 import home_pb2
from hermes.agent.v1.home_pb2_grpc import HomeServiceStub
from hermes.scheduler.v1.job_file_pb2 import ImportedJob
from services.cli import home_sandboxes
from services.cli.arguments import Actions
from services.cli.connection import connected, has_services
from services.cli.console import complain, counted, print_json, say
from services.cli.failures import explain
from services.cli.home_jobs import Jobs
from services.cli.home_source import Source, find
from services.cli.home_target import Target
from services.cli.job_files import is_here, note_of
from services.cli.progress import StatusLine
from services.cli.startup import load, logged
from services.config import Settings
from services.errors import AlreadyExists, HermesError, InvalidArgument, Reason, reason_of
from services.home_jobs import JOBS
from services.home_plugins import told_of
from services.streams import open_stream

EXAMPLES = """\
examples:
  hermes home import ~/backup/hermes --dry-run
  hermes home import ~/backup/hermes
  hermes home import ~/backup/hermes --keep --without sandboxes
  hermes home import /mnt/old/.hermes --into ann
  hermes home import --sandboxes
  hermes home export ~/backup/hermes
  hermes home export ~/backup/hermes --with-secrets
  hermes home export /tmp/ann --from ann --json"""

_EXISTING = {
    "refuse": home_pb2.EXISTING_FILES_REFUSE,
    "keep": home_pb2.EXISTING_FILES_KEEP,
    "overwrite": home_pb2.EXISTING_FILES_REPLACE,
}
_READ_AT_START = ("config.yaml", ".env")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes home`."""
    actions = Actions(parser, "import|export")
    taking = actions.add("import", "take every file of a home, all or none, and its jobs")
    taking.add_argument(
        "folder", nargs="?", type=Path, metavar="DIR", help="the home to take, left as it is"
    )
    old = taking.add_mutually_exclusive_group()
    old.add_argument(
        "--sandboxes",
        action="store_true",
        help="instead of DIR: the old workspaces in the home's folder sandboxes",
    )
    old.add_argument(
        "--no-sandboxes", action="store_true", help="instead of DIR: never ask about those again"
    )
    taking.add_argument(
        "--into", default="", metavar="PROFILE", help="take it as the home of this profile"
    )
    there = taking.add_mutually_exclusive_group()
    there.add_argument(
        "--keep",
        dest="existing",
        action="store_const",
        const="keep",
        help="keep files that are there with other content",
    )
    there.add_argument(
        "--overwrite",
        dest="existing",
        action="store_const",
        const="overwrite",
        help="replace files that are there with other content",
    )
    taking.set_defaults(existing="refuse")
    # An executor that starts for old workspaces is for them alone, and leaves no sandbox behind.
    parser.set_defaults(prefill=False, warm_pool_size=0, keep_on_exit=False)
    _add_without(taking)
    taking.add_argument("--no-jobs", action="store_true", help="start none of its jobs here")
    taking.add_argument("--dry-run", action="store_true", help="only say what would be done")
    taking.add_argument("--json", action="store_true", help="one JSON object")
    export = actions.add("export", "write every file of the home into a folder")
    export.add_argument("folder", type=Path, metavar="DIR", help="a folder, new or empty")
    export.add_argument(
        "--from", dest="source", default="", metavar="PROFILE", help="only this profile's home"
    )
    export.add_argument(
        "--with-secrets", action="store_true", help="also .env, auth.json and whatsapp/session"
    )
    export.add_argument("--overwrite", action="store_true", help="into a folder that is not empty")
    _add_without(export)
    export.add_argument("--json", action="store_true", help="one JSON object")


def _add_without(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PATH",
        help="leave a file or folder out, such as image_cache or 'sessions/*'",
    )


def run(arguments: argparse.Namespace) -> int:
    """Takes or writes."""
    settings = load(arguments)
    settings.home.create()
    action = _import if arguments.action == "import" else _export
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(action(settings, arguments))
    return 0


async def _import(settings: Settings, given: argparse.Namespace) -> None:
    if given.sandboxes or given.no_sandboxes:
        await _import_sandboxes(settings, given)
        return
    if given.folder is None:
        raise InvalidArgument("say which folder to take: hermes home import DIR")
    own = given.into or settings.profile
    source = await asyncio.to_thread(find, given.folder, own, given.without)
    if await asyncio.to_thread(_is_same, given.folder, settings.home.root):
        raise InvalidArgument(f"{given.folder} is the home in use; there is nothing to take")
    running = await has_services(settings, ("agent",))
    needed = ("agent", "scheduler") if source.has(JOBS) else ("agent",)
    async with connected(settings, needed) as channels:
        last = home_pb2.ImportHomeRequest(
            finish=True, dry_run=given.dry_run, existing=_EXISTING[given.existing]
        )
        jobs = Jobs(channels, source, starts=not given.no_jobs, dry_run=given.dry_run)
        # A scheduler that starts takes what it finds in its home.
        await jobs.leave()
        taken = await _send(HomeServiceStub(channels.to("agent")), source, last)
        await jobs.take()
    left_out = [*map(_left_out, taken.left_out), *source.left_out]
    if given.json:
        told = _imported(taken, jobs.found, left_out, dry_run=given.dry_run)
        print_json(told | {"memory_providers": list(source.memory_providers())})
        return
    _say_imported(given, taken, jobs.found)
    _say_left_out(left_out)
    if kept := source.memory_providers():
        complain(told_of(kept))
    if not given.dry_run and not given.into:
        await home_sandboxes.offer(settings, may_ask=home_sandboxes.is_at_terminal())
    if running and not given.dry_run and any(map(source.has, _READ_AT_START)):
        complain("config.yaml and .env are read when services start; start them anew")


async def _import_sandboxes(settings: Settings, given: argparse.Namespace) -> None:
    if given.folder is not None or given.dry_run:
        raise InvalidArgument(
            "--sandboxes is about the home in use, and goes with neither a folder nor --dry-run"
        )
    if given.no_sandboxes:
        await home_sandboxes.decline(settings)
        say(home_sandboxes.DECLINED)
    else:
        await home_sandboxes.run(settings, as_json=given.json)


class _Sending:
    """The files on their way; without a last word when one cannot be read."""

    def __init__(self, source: Source, last: home_pb2.ImportHomeRequest) -> None:
        self.problem: HermesError | None = None
        self._source = source
        self._last = last

    async def requests(self) -> AsyncGenerator[home_pb2.ImportHomeRequest]:
        """The requests of ImportHome."""
        try:
            total = len(self._source.files)
            with StatusLine() as status:
                for number, file in enumerate(self._source.files, 1):
                    status.show(f"reading file {number} of {total}")
                    head = home_pb2.HomeFile(profile=file.profile, path=file.path, mode=file.mode)
                    async for piece in self._source.read(file):
                        yield home_pb2.ImportHomeRequest(file=head, data=piece)
                        head = None
                    if head is not None:
                        yield home_pb2.ImportHomeRequest(file=head)
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


async def _export(settings: Settings, given: argparse.Namespace) -> None:
    folder = await asyncio.to_thread(given.folder.resolve)
    home = await asyncio.to_thread(settings.home.root.resolve)
    if folder == home or home in folder.parents:
        raise InvalidArgument(f"{folder} is in the home itself; choose a folder outside of it")
    # On its own, the home of a profile has no folder `profiles`.
    own = given.source or settings.profile
    wanted = [own] if given.source or own != "default" else []
    target = Target(folder, own, given.without, overwrite=given.overwrite)
    await asyncio.to_thread(target.check)
    request = home_pb2.ExportHomeRequest(profiles=wanted, with_secrets=given.with_secrets)
    async with connected(settings, ("agent",)) as channels:
        call = HomeServiceStub(channels.to("agent")).ExportHome(request)
        async with target, open_stream(call):
            summary = await _receive(call, target)
        left_out = list(map(_left_out, summary.left_out))
    if given.json:
        print_json(
            {
                "folder": str(folder),
                "profiles": list(summary.profiles),
                "files": target.count,
                "left_out": left_out,
            }
        )
        return
    files, profiles = counted(target.count, "file"), counted(len(summary.profiles), "profile")
    say(f"{folder} has {files} of {profiles}")
    _say_left_out(left_out)


async def _receive(call: Any, target: Target) -> home_pb2.ExportHomeSummary:
    summary = home_pb2.ExportHomeSummary()
    with StatusLine() as status:
        async for answer in call:
            if answer.HasField("summary"):
                summary = answer.summary
            if answer.HasField("file"):
                await target.begin(answer.file.profile, answer.file.path, answer.file.mode)
                status.show(f"writing file {target.count} of {summary.file_count}")
            await target.write(answer.data)
    await target.finish()
    return summary


def _is_same(left: Path, right: Path) -> bool:
    return left.exists() and right.exists() and left.samefile(right)


def _left_out(one: home_pb2.HomeFileLeftOut) -> dict[str, str]:
    return {"profile": one.profile, "path": one.path, "reason": one.reason}


def _imported(
    taken: home_pb2.ImportHomeResponse,
    jobs: Sequence[ImportedJob],
    left_out: Sequence[dict[str, str]],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "files": {
            "added": taken.added_count,
            "replaced": taken.replaced_count,
            "kept": taken.kept_count,
            "unchanged": taken.unchanged_count,
        },
        "sessions": taken.session_count,
        "jobs": [job.job_id for job in jobs if is_here(job)],
        "jobs_not_run": [
            {"name": job.name, "reason": "; ".join(job.notes)} for job in jobs if not is_here(job)
        ],
        "job_notes": [
            {"job_id": job.job_id, "name": job.name, "notes": list(job.notes)}
            for job in jobs
            if is_here(job) and job.notes
        ],
        "left_out": list(left_out),
    }


def _say_imported(
    given: argparse.Namespace,
    taken: home_pb2.ImportHomeResponse,
    jobs: Sequence[ImportedJob],
) -> None:
    counts = {
        "new": taken.added_count,
        "replaced": taken.replaced_count,
        "kept as they were here": taken.kept_count,
        "the same already": taken.unchanged_count,
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none"
    say(f"{'would take' if given.dry_run else 'took'} files of {given.folder}: {told}")
    if taken.session_count:
        say(f"took {counted(taken.session_count, 'session')}")
    if here := sum(map(is_here, jobs)):
        say(f"{'would take' if given.dry_run else 'took'} {counted(here, 'job')}")
    for line in filter(None, map(note_of, jobs)):
        say(line)


def _say_left_out(left_out: Sequence[dict[str, str]]) -> None:
    for one in left_out:
        complain(f"left out: {one['path']} ({one['profile']}): {one['reason']}")
