"""Add, change, run and move scheduled jobs, and see what came of them."""

from services.cli import job_changes, job_files, job_runs
from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    Action,
    Command,
    Context,
    OneOf,
    arg,
    flag,
    limit,
)
from services.cli.console import printable, say
from services.cli.job_home import at_jobs
from services.cli.job_options import CLEARED, OPTIONS
from services.cli.job_view import JOB, JOB_LIST, last_error, show

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


async def _list(context: Context) -> None:
    found = await job_runs.all_jobs(context)
    nothing = 'There are no jobs yet; add one with: hermes jobs add "every 2h" "…"'
    context.print_list(found, JOB if context.given.json else JOB_LIST, nothing)
    if context.given.json:
        return
    for job in found:
        if error := last_error(job):
            say(f"{job.job_id} failed last time: {printable(error)}")
        if job.pause_reason:
            say(f"{job.job_id} is paused: {printable(job.pause_reason)}")


async def _show(context: Context) -> None:
    job = await job_runs.find_job(context)
    if context.given.json:
        context.print_one(job, JOB)
    else:
        show(job)


_JOB = arg("job", metavar="JOB", help="its id or name")
_PROMPT = "what Hermes is asked each time"
_WHEN = 'such as "every 2h", "every monday 8am", "0 9 * * mon-fri"'
_PAUSING = (
    OneOf(
        (
            arg("job", metavar="JOB", nargs="?", help="its id or name"),
            flag("--all", "every job of the profile"),
        ),
        required=True,
    ),
    JSON_LIST,
)
COMMAND = Command(
    EXAMPLES,
    (
        Action(
            "add",
            "add a job",
            job_changes.add,
            (
                arg("schedule", help=_WHEN),
                arg("prompt", nargs="?", default="", help=_PROMPT),
                *OPTIONS,
                flag("--paused", "it runs when it is resumed"),
                flag("--dry-run", "only say when it would be due, and store nothing"),
                JSON_OBJECT,
            ),
            services=(),
        ),
        Action("list", "the jobs, the one due next first", _list, (JSON_LIST,)),
        Action("show", "all about a job", _show, (_JOB, JSON_OBJECT)),
        Action(
            "edit",
            "change what is named of a job, and leave the rest as it is",
            job_changes.edit,
            (
                _JOB,
                arg("--schedule", metavar="WHEN", help="a new schedule, counted from now"),
                arg("--prompt", metavar="TEXT", help=_PROMPT),
                *OPTIONS,
                arg(
                    "--clear",
                    action="append",
                    default=[],
                    choices=tuple(CLEARED),
                    help="have the default again; once for each",
                ),
                JSON_OBJECT,
            ),
            services=(),
        ),
        Action("pause", "let a job run no more until it is resumed", job_changes.pause, _PAUSING),
        Action("resume", "let a paused job run again, from now on", job_changes.pause, _PAUSING),
        Action(
            "run",
            "run a job now, and wait for what comes of it",
            job_runs.run_job,
            (_JOB, flag("--no-wait", "only have it begin"), JSON_OBJECT),
            services=(),
        ),
        Action(
            "runs",
            "the runs of a job, or what came of one",
            job_runs.show_runs,
            (
                _JOB,
                arg(
                    "run",
                    metavar="RUN",
                    nargs="?",
                    help=f"the id of a run, or '{job_runs.LATEST}': what came of it",
                ),
                limit(job_runs.KEPT_RUNS),
                flag("--json", "one JSON list, or object of a run"),
            ),
        ),
        Action(
            "remove",
            "remove a job; a run under way goes on",
            job_changes.remove,
            (_JOB, JSON_OBJECT),
        ),
        *job_files.ACTIONS,
    ),
    services=("scheduler",),
    locate=at_jobs,
)
