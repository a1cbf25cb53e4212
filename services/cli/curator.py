"""See and steer the curator, which keeps the library of skills small and current."""

import argparse
import asyncio
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1 import curation_pb2
from hermes.scheduler.v1 import curator_pb2
from hermes.scheduler.v1.curator_pb2_grpc import CuratorServiceStub
from services.cli.arguments import Actions, up_to
from services.cli.connection import connected
from services.cli.console import complain, print_json, printable, say
from services.cli.job_home import at_library
from services.cli.standard_input import agreed
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings
from services.errors import FailedPrecondition, NotFound
from services.ids import new_id

EXAMPLES = """\
examples:
  hermes curator status
  hermes curator dry-run          what it would do
  hermes curator run              do it now
  hermes curator reports --json
  hermes curator rollback         to before the latest change
  hermes curator pause
  hermes curator resume

It begins by itself where curator.enabled says so. Nothing is deleted: skills are put away into
skills/.archive, and before each change there is a backup."""

LOOK_S = 0.5
"""How often a run is looked at that is waited for."""
MAX_REPORTS = 100
"""The most that one request may ask for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes curator`."""
    actions = Actions(parser, "status|run|dry-run|pause|resume|rollback|reports")
    status = actions.add("status", "when it runs, what it did, and which backups there are")
    status.add_argument("--json", action="store_true", help="one JSON object")
    for name, help_text in (
        ("run", "look after the skills now, and wait for it"),
        ("dry-run", "only say what would be done"),
    ):
        begin = actions.add(name, help_text)
        begin.add_argument("--json", action="store_true", help="one JSON object")
    for name, help_text in (
        ("pause", "let it begin by itself no more"),
        ("resume", "let it begin by itself again"),
    ):
        change = actions.add(name, help_text)
        change.add_argument("--json", action="store_true", help="one JSON object")
    rollback = actions.add("rollback", "undo what the curator has changed")
    rollback.add_argument("backup", metavar="BACKUP", nargs="?", default="", help="the latest")
    rollback.add_argument("--yes", action="store_true", help="do not ask")
    rollback.add_argument("--json", action="store_true", help="one JSON object")
    reports = actions.add("reports", "what came of its runs, the latest first")
    reports.add_argument(
        "--limit", type=up_to(MAX_REPORTS), default=20, metavar="N", help="how many (20)"
    )
    reports.add_argument("--json", action="store_true", help="one JSON list")


def run(arguments: argparse.Namespace) -> int:
    """Shows, runs, pauses, resumes or rolls back."""
    settings = load(arguments)
    settings = asyncio.run(at_library(settings, arguments))
    settings.home.create()
    actions = {
        "status": _status,
        "run": _run,
        "dry-run": _run,
        "pause": _pause,
        "resume": _pause,
        "rollback": _roll_back,
        "reports": _reports,
    }
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(actions[arguments.action](settings, arguments))
    return 0


async def _status(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("scheduler", "agent")) as channels:
        stub = CuratorServiceStub(channels.to("scheduler"))
        answer = await stub.GetCurator(
            curator_pb2.GetCuratorRequest(profile=arguments.profile or "")
        )
    _show(answer.curator, arguments)


async def _run(settings: Settings, arguments: argparse.Namespace) -> None:
    request = curator_pb2.RunCuratorRequest(
        profile=arguments.profile or "",
        run_id=new_id("cur"),
        dry_run=arguments.action == "dry-run",
    )
    async with connected(settings, ("scheduler", "agent")) as channels:
        stub = CuratorServiceStub(channels.to("scheduler"))
        found = (await stub.RunCurator(request)).run
        while found.state == curator_pb2.CURATOR_RUN_STATE_OPEN:
            await asyncio.sleep(LOOK_S)
            found = (await stub.RunCurator(request)).run
    if found.error:
        raise FailedPrecondition(f"the skills stay as they are: {found.error}")
    if arguments.json:
        print_json(_report(found.report))
    else:
        _tell(found.report)


async def _pause(settings: Settings, arguments: argparse.Namespace) -> None:
    profile = arguments.profile or ""
    async with connected(settings, ("scheduler", "agent")) as channels:
        stub = CuratorServiceStub(channels.to("scheduler"))
        if arguments.action == "pause":
            request = curator_pb2.PauseCuratorRequest(profile=profile)
            found = (await stub.PauseCurator(request)).curator
        else:
            wanted = curator_pb2.ResumeCuratorRequest(profile=profile)
            found = (await stub.ResumeCurator(wanted)).curator
    _show(found, arguments)


async def _roll_back(settings: Settings, arguments: argparse.Namespace) -> None:
    profile = arguments.profile or ""
    async with connected(settings, ("scheduler", "agent")) as channels:
        stub = CuratorServiceStub(channels.to("scheduler"))
        answer = await stub.GetCurator(curator_pb2.GetCuratorRequest(profile=profile))
        if not arguments.backup and not answer.curator.backup_ids:
            raise NotFound("there is no backup: the curator has changed nothing yet")
        which = f"since {arguments.backup}" if arguments.backup else "in its latest change"
        if not arguments.yes and not await agreed(
            f"Undo what the curator changed {which}? What others changed since stays.",
            "say --yes to go back all the same",
        ):
            complain("nothing was changed")
            return
        done = await stub.RollBack(
            curator_pb2.RollBackRequest(
                profile=profile, run_id=new_id("cur"), backup_id=arguments.backup
            )
        )
    if arguments.json:
        print_json(_report(done.report))
    else:
        _tell(done.report)


async def _reports(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("scheduler", "agent")) as channels:
        stub = CuratorServiceStub(channels.to("scheduler"))
        answer = await stub.ListReports(
            curator_pb2.ListReportsRequest(
                profile=arguments.profile or "", page_size=arguments.limit
            )
        )
    if arguments.json:
        print_json([_report(report) for report in answer.reports])
    elif answer.reports:
        print_table(
            ("time", "backup before", "what it did", "report"),
            [
                (_local(each.time), each.backup_id or "—", printable(each.summary), each.path)
                for each in answer.reports
            ],
        )
    else:
        say("The curator has not run yet; try: hermes curator dry-run")


def _show(found: curator_pb2.Curator, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print_json(_described(found))
        return
    state = "paused" if found.is_paused else "on" if found.is_enabled else "off (curator.enabled)"
    say(f"The curator is {state}.")
    # The first look at a library is noted as if it were a run.
    say(f"last run     {_local(found.last_run_time) if found.run_count else 'never'}")
    if found.next_run_time.seconds:
        say(f"next run     {_local(found.next_run_time)} or later, when nobody talks to the agent")
    if found.last_summary:
        say(f"last time    {printable(found.last_summary)}")
        say(f"report       {printable(found.last_report_path)}")
    latest = found.latest_run
    if latest.state == curator_pb2.CURATOR_RUN_STATE_OPEN:
        why = f"; it has waited: {printable(latest.error)}" if latest.error else ""
        say(f"latest run   is under way{why}")
    elif latest.error:
        say(f"latest run   failed: {printable(latest.error)}")
    if found.backup_ids:
        say(f"backups      {', '.join(found.backup_ids)}")


def _tell(report: curation_pb2.CurationReport) -> None:
    say(printable(f"{'Would be: ' if report.dry_run else ''}{report.summary}"))
    rows = [_row(change, "") for change in report.changes]
    rows += [_row(change, "not done: ") for change in report.refusals]
    if rows:
        print_table(("what", "skill", "into", "why"), rows)
    if report.path:
        say(f"report: {report.path}")
    if report.backup_id:
        say(f"to undo it: hermes curator rollback {report.backup_id}")


def _row(change: curation_pb2.CurationChange, said: str) -> tuple[str, str, str, str]:
    return (
        change.kind,
        printable(change.name),
        printable(change.into) or "—",
        printable(f"{said}{change.reason}"),
    )


def _described(found: curator_pb2.Curator) -> dict[str, Any]:
    latest = found.latest_run
    return {
        "enabled": found.is_enabled,
        "paused": found.is_paused,
        "last_run_at": _iso(found.last_run_time),
        "next_run_at": _iso(found.next_run_time),
        "run_count": found.run_count,
        "last_summary": found.last_summary or None,
        "last_report_path": found.last_report_path or None,
        "latest_run": {
            "run_id": latest.run_id,
            "state": curator_pb2.CuratorRunState.Name(latest.state)
            .removeprefix("CURATOR_RUN_STATE_")
            .lower(),
            "dry_run": latest.dry_run,
            "error": latest.error or None,
        }
        if latest.run_id
        else None,
        "backups": list(found.backup_ids),
    }


def _report(report: curation_pb2.CurationReport) -> dict[str, Any]:
    return {
        "run_id": report.run_id or None,
        "time": _iso(report.time),
        "summary": report.summary,
        "report": report.path or None,
        "backup": report.backup_id or None,
        "dry_run": report.dry_run,
        "changes": [_change(each) for each in report.changes],
        "refused": [_change(each) for each in report.refusals],
        "not_consolidated": report.plan_failure or None,
    }


def _change(change: curation_pb2.CurationChange) -> dict[str, Any]:
    return {
        "what": change.kind,
        "skill": change.name,
        "into": change.into or None,
        "why": change.reason,
    }


def _iso(moment: Timestamp) -> str | None:
    return moment.ToJsonString() if moment.seconds else None


def _local(moment: Timestamp) -> str:
    if not moment.seconds:
        return "—"
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M:%S}"
