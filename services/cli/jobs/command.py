"""Add, list, edit, run, import and export scheduled jobs."""

from services.cli.command import (
    JSON_LIST,
    JSON_OBJECT,
    Command,
    Context,
    OneOf,
    action,
    arg,
    flag,
    limit,
)
from services.cli.console import printable, say
from services.cli.jobs import changes, files, runs
from services.cli.jobs.home import at_jobs
from services.cli.jobs.options import CLEARED, OPTIONS
from services.cli.jobs.view import JOB_LIST, last_error, show
from services.cli.output import print_json

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

Give a job by its id, the beginning of its id, or its name. Jobs run only while Hermes is running
(hermes up, or the services)."""


async def _list(context: Context) -> None:
    """List jobs, the one that is due next first."""
    found = await runs.all_jobs(context)
    nothing = 'There are no jobs yet. Add one with: hermes jobs add "every 2h" "…"'
    context.print_list(found, JOB_LIST, nothing)
    if context.given.json:
        return
    for job in found:
        if error := last_error(job):
            say(f"{job.job_id} failed last time: {printable(error)}")
        if job.pause_reason:
            say(f"{job.job_id} is paused: {printable(job.pause_reason)}")


async def _show(context: Context) -> None:
    """Show the details of a job."""
    job = await runs.find_job(context)
    if context.given.json:
        print_json(job)
    else:
        show(job)


_JOB = arg("JOB", "id or name of the job")
_PROMPT = "the prompt of each run"
_WHEN = 'when to run, such as "every 2h", "every monday 8am" or "0 9 * * mon-fri"'
_PAUSING = (
    OneOf(
        (arg("JOB?", "id or name of the job"), flag("--all", "all jobs of the profile")),
        required=True,
    ),
    JSON_LIST,
)
_RUN = f"show the output of this run: its id, or '{runs.LATEST}'"
_CLEAR = "reset this option to its default; repeatable"
COMMAND = Command(
    EXAMPLES,
    (
        action(
            changes.add,
            arg("SCHEDULE", _WHEN),
            arg("PROMPT?", _PROMPT, default=""),
            *OPTIONS,
            flag("--paused", "do not run it until you resume it"),
            flag("--dry-run", "show when it would run, and store nothing"),
            JSON_OBJECT,
            services=(),
        ),
        action(_list, JSON_LIST),
        action(_show, _JOB, JSON_OBJECT),
        action(
            changes.edit,
            _JOB,
            arg("--schedule WHEN", "new schedule, from now on"),
            arg("--prompt TEXT", _PROMPT),
            *OPTIONS,
            arg("--clear", _CLEAR, action="append", default=[], choices=tuple(CLEARED)),
            JSON_OBJECT,
            services=(),
        ),
        action(changes.pause, *_PAUSING),
        action(changes.pause, *_PAUSING, name="resume", help="Resume a paused job."),
        action(
            runs.run_job,
            _JOB,
            flag("--no-wait", "start the run and do not wait"),
            JSON_OBJECT,
            name="run",
            services=(),
        ),
        action(
            runs.show_runs,
            _JOB,
            arg("RUN?", _RUN),
            limit(runs.KEPT_RUNS),
            flag("--json", "print a JSON list, or an object for one run"),
            name="runs",
        ),
        action(changes.remove, _JOB, JSON_OBJECT),
        *files.ACTIONS,
    ),
    services=("scheduler",),
    locate=at_jobs,
)
