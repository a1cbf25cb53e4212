"""Control the curator, which tidies up skills."""

import asyncio

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1.curation_pb2 import CurationReport
from hermes.scheduler.v1 import curator_pb2 as pb
from hermes.scheduler.v1.curator_pb2_grpc import CuratorServiceStub
from services.cli.command import JSON_LIST, JSON_OBJECT, YES, Command, Context, action, arg, limit
from services.cli.console import printable, say
from services.cli.jobs.home import at_library
from services.cli.output import NOTHING, Column, local_time, print_details, print_json, print_table
from services.errors import FailedPrecondition, NotFound
from services.ids import new_id

EXAMPLES = """\
examples:
  hermes curator status
  hermes curator dry-run          show what it would do
  hermes curator run              run it now
  hermes curator reports --json
  hermes curator rollback         undo the latest change
  hermes curator pause
  hermes curator resume

The curator runs by itself if curator.enabled is true. It deletes nothing: it moves skills to
skills/.archive, and makes a backup before each change."""

LOOK_S = 0.5
"""The polling interval of a run."""
MAX_REPORTS = 100
"""The limit of a request."""

_REPORT = (
    Column("time", cell=lambda moment: local_time(moment, seconds=True)),
    Column("backup before", "backup_id", lambda it: it or NOTHING),
    Column("what it did", "summary"),
    Column("report", "path"),
)


def _last(found: pb.Curator) -> str:
    # The first check of a library is recorded like a run.
    return local_time(found.last_run_time, seconds=True) if found.run_count else "never"


def _next(moment: Timestamp | None) -> str:
    if moment is None:
        return NOTHING
    return f"{local_time(moment, seconds=True)} or later, when the agent is idle"


def _latest_trouble(found: pb.Curator) -> str:
    run = found.latest_run
    if run.run_id and not run.HasField("finish_time"):
        return f"is running{run.error and f'; it has waited: {run.error}'}"
    return run.error and f"failed: {run.error}"


_CURATOR = (
    Column("last run", _last),
    Column("next run", "next_run_time", _next),
    Column("last time", "last_summary"),
    Column("report", "last_report_path"),
    Column("latest run", _latest_trouble),
    Column("backups", "backup_ids"),
)


async def _status(context: Context) -> None:
    """Show when the curator runs, its last result, and its backups."""
    request = context.request(pb.GetCuratorRequest)
    _show(context, (await context.stub(CuratorServiceStub).GetCurator(request)).curator)


async def _run(context: Context) -> None:
    """Run the curator now and wait for the result."""
    stub = context.stub(CuratorServiceStub)
    is_dry = context.given.action == "dry-run"
    request = context.request(pb.RunCuratorRequest, run_id=new_id("cur"), dry_run=is_dry)
    found = (await stub.RunCurator(request)).run
    while not found.HasField("finish_time"):
        await asyncio.sleep(LOOK_S)
        found = (await stub.RunCurator(request)).run
    if found.error:
        raise FailedPrecondition(f"the curator changed nothing: {found.error}")
    _tell(context, found.report)


async def _pause(context: Context) -> None:
    """Stop automatic runs."""
    stub = context.stub(CuratorServiceStub)
    if context.given.action == "pause":
        found = (await stub.PauseCurator(context.request(pb.PauseCuratorRequest))).curator
    else:
        found = (await stub.ResumeCurator(context.request(pb.ResumeCuratorRequest))).curator
    _show(context, found)


async def _roll_back(context: Context) -> None:
    """Undo changes of the curator."""
    stub, backup = context.stub(CuratorServiceStub), context.given.backup_id
    found = (await stub.GetCurator(context.request(pb.GetCuratorRequest))).curator
    if not backup and not found.backup_ids:
        raise NotFound("there is no backup, because the curator has changed nothing yet")
    which = f"since {backup}" if backup else "of its latest run"
    await context.confirm(
        f"Undo the curator's changes {which}? Later changes by others stay.",
        "use --yes",
        "nothing was changed",
    )
    request = context.request(pb.RollBackRequest, run_id=new_id("cur"))
    _tell(context, (await stub.RollBack(request)).report)


async def _reports(context: Context) -> None:
    """List the reports of its runs, the newest first."""
    request = context.request(pb.ListReportsRequest)
    found = (await context.stub(CuratorServiceStub).ListReports(request)).reports
    nothing = "The curator has not run yet; try: hermes curator dry-run"
    context.print_list(found, _REPORT, nothing)


def _show(context: Context, found: pb.Curator) -> None:
    if context.given.json:
        print_json(found)
        return
    on = "on" if found.is_enabled else "off (curator.enabled)"
    say(f"The curator is {'paused' if found.is_paused else on}.")
    print_details(found, _CURATOR)


def _tell(context: Context, report: CurationReport) -> None:
    if context.given.json:
        print_json(report)
        return
    say(printable(f"{'Would be: ' if report.dry_run else ''}{report.summary}"))
    notes = [*((it, "") for it in report.changes), *((it, "not done: ") for it in report.refusals)]
    if notes:
        rows = [(it.kind, it.name, it.into or NOTHING, f"{lead}{it.reason}") for it, lead in notes]
        print_table(("what", "skill", "into", "why"), [tuple(map(printable, row)) for row in rows])
    if report.path:
        say(f"report: {report.path}")
    if report.backup_id:
        say(f"undo it with: hermes curator rollback {report.backup_id}")


_ONE = (JSON_OBJECT,)
_BACKUP = arg("BACKUP?", "the backup to restore (the latest)", field="backup_id", default="")
COMMAND = Command(
    EXAMPLES,
    (
        action(_status, *_ONE),
        action(_run, *_ONE),
        action(_run, *_ONE, name="dry-run", help="Show what the curator would do."),
        action(_pause, *_ONE),
        action(_pause, *_ONE, name="resume", help="Allow automatic runs again."),
        action(_roll_back, _BACKUP, YES, JSON_OBJECT, name="rollback"),
        action(_reports, limit(MAX_REPORTS), JSON_LIST),
    ),
    services=("scheduler", "agent"),
    locate=at_library,
)
