"""Add, change, run and move scheduled jobs, and see what came of them."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli import job_changes, job_files, job_runs
from services.cli.arguments import Actions, up_to
from services.cli.connection import connected
from services.cli.console import print_json, say
from services.cli.job_home import at_jobs
from services.cli.job_lookup import KEPT_RUNS, LATEST, Jobs
from services.cli.job_options import CLEARED, add_options
from services.cli.job_view import described, show, show_list
from services.cli.startup import load, logged
from services.config import Settings

EXAMPLES = """\
examples:
  hermes jobs add "every 2h" "look for new mail"
  hermes jobs add "every weekday at 9:00" "what is on my calendar?" --time-zone Europe/Berlin
  hermes jobs add "in 20 minutes" "remind me of the tea" --to telegram:12345
  hermes jobs add "every 1h" "run the tests" --sandbox gvisor --timeout 20m --retries 2
  hermes jobs add "0 3 * * *" "clean up the build server" --unattended halt
  hermes jobs add "every 10m" --script check-disk.sh --no-agent --name disk
  hermes jobs add "every monday at 9:00" --dry-run
  hermes jobs list
  hermes jobs show mail
  hermes jobs edit mail --schedule "every 30m" --model small --clear retries
  hermes jobs pause mail
  hermes jobs pause --all
  hermes jobs resume mail
  hermes jobs run mail
  hermes jobs runs mail
  hermes jobs runs mail latest
  hermes jobs remove job_06h00k5sv3a2ovn28hk0a80nvk
  hermes jobs import ~/backup/hermes/cron/jobs.json --dry-run
  hermes jobs import jobs.json --paused
  hermes jobs export jobs.json

A job is named by its id, by the beginning of the id if no other begins so, or by its name.
Jobs run while hermes up, or the services, are running."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes jobs`."""
    actions = Actions(parser, "add|list|show|edit|pause|resume|run|runs|remove|import|export")
    _add_changes(actions)
    listing = actions.add("list", "the jobs, the one due next first")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    showing = actions.add("show", "all about a job")
    _add_job(showing)
    for name, meaning in (
        ("pause", "let a job run no more until it is resumed"),
        ("resume", "let a paused job run again, from now on"),
    ):
        change = actions.add(name, meaning)
        which = change.add_mutually_exclusive_group(required=True)
        which.add_argument("job", metavar="JOB", nargs="?", help="its id or name")
        which.add_argument("--all", action="store_true", help="every job of the profile")
        change.add_argument("--json", action="store_true", help="one JSON list")
    running = actions.add("run", "run a job now, and wait for what comes of it")
    _add_job(running)
    running.add_argument("--no-wait", action="store_true", help="only have it begin")
    runs = actions.add("runs", "the runs of a job, or what came of one")
    runs.add_argument("job", metavar="JOB", help="its id or name")
    runs.add_argument(
        "run", metavar="RUN", nargs="?", help=f"the id of a run, or '{LATEST}': what came of it"
    )
    runs.add_argument(
        "--limit", type=up_to(KEPT_RUNS), default=20, metavar="N", help="how many (20)"
    )
    runs.add_argument("--json", action="store_true", help="one JSON list, or object of a run")
    remove = actions.add("remove", "remove a job; a run under way goes on")
    _add_job(remove)
    _add_files(actions)


def _add_changes(actions: Actions) -> None:
    add = actions.add("add", "add a job")
    add.add_argument("schedule", help='such as "every 2h", "every monday 8am", "0 9 * * mon-fri"')
    add.add_argument("prompt", nargs="?", default="", help="what Hermes is asked each time")
    add_options(add)
    add.add_argument("--paused", action="store_true", help="it runs when it is resumed")
    add.add_argument(
        "--dry-run", action="store_true", help="only say when it would be due, and store nothing"
    )
    add.add_argument("--json", action="store_true", help="one JSON object")
    edit = actions.add("edit", "change what is named of a job, and leave the rest as it is")
    edit.add_argument("job", metavar="JOB", help="its id or name")
    edit.add_argument("--schedule", metavar="WHEN", help="a new schedule, counted from now")
    edit.add_argument("--prompt", metavar="TEXT", help="what Hermes is asked each time")
    add_options(edit)
    edit.add_argument(
        "--clear",
        action="append",
        default=[],
        choices=tuple(CLEARED),
        help="have the default again; once for each",
    )
    edit.add_argument("--json", action="store_true", help="one JSON object")


def _add_files(actions: Actions) -> None:
    taking = actions.add("import", "take the jobs of a file as homes have it, cron/jobs.json")
    taking.add_argument(
        "file", type=Path, metavar="FILE", help="the file, left as it is; - is standard input"
    )
    taking.add_argument(
        "--time-zone", metavar="ZONE", help="of schedules that name none (that of its home)"
    )
    taking.add_argument("--paused", action="store_true", help="all of them run when resumed")
    taking.add_argument("--dry-run", action="store_true", help="only say what would be done")
    taking.add_argument("--json", action="store_true", help="one JSON object")
    giving = actions.add("export", "write all jobs as such a file")
    giving.add_argument("file", type=Path, nargs="?", metavar="FILE", help="standard output")
    giving.add_argument("--overwrite", action="store_true", help="where there is such a file")
    giving.add_argument("--json", action="store_true", help="one JSON object")


def _add_job(action: argparse.ArgumentParser) -> None:
    action.add_argument("job", metavar="JOB", help="its id or name")
    action.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked for."""
    settings = load(arguments)
    settings = asyncio.run(at_jobs(settings, arguments))
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        return asyncio.run(_ACTIONS[arguments.action](settings, arguments))


async def _list(settings: Settings, arguments: argparse.Namespace) -> int:
    async with connected(settings, ("scheduler",)) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        found = [job async for job in jobs.all()]
    if arguments.json:
        print_json(list(map(described, found)))
    elif found:
        show_list(found)
    else:
        say('There are no jobs yet; add one with: hermes jobs add "every 2h" "…"')
    return 0


async def _show(settings: Settings, arguments: argparse.Namespace) -> int:
    async with connected(settings, ("scheduler",)) as channels:
        jobs = Jobs(JobServiceStub(channels.to("scheduler")), arguments.profile or "")
        job = await jobs.find(arguments.job)
    if arguments.json:
        print_json(described(job))
    else:
        show(job)
    return 0


_ACTIONS: Mapping[str, Callable[[Settings, argparse.Namespace], Coroutine[Any, Any, int]]] = {
    "add": job_changes.add,
    "list": _list,
    "show": _show,
    "edit": job_changes.edit,
    "pause": job_changes.pause,
    "resume": job_changes.pause,
    "run": job_runs.begin,
    "runs": job_runs.show,
    "remove": job_changes.remove,
    "import": job_files.take,
    "export": job_files.give,
}
