"""Add, list and remove scheduled jobs."""

import argparse
import asyncio
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.common.v1 import approval_pb2
from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli.arguments import Actions
from services.cli.connection import connected, has_services
from services.cli.console import complain, print_json, printable, say
from services.cli.executors import executors
from services.cli.failures import EXPECTED, explain
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings
from services.errors import InvalidArgument
from services.ids import new_id

EXAMPLES = """\
examples:
  hermes jobs add "every 2h" "look for new mail"
  hermes jobs add "every weekday at 9:00" "what is on my calendar?" --time-zone Europe/Berlin
  hermes jobs add "in 20 minutes" "remind me of the tea" --to telegram:12345
  hermes jobs add "every 1h" "run the tests" --sandbox gvisor
  hermes jobs add "0 3 * * *" "clean up the build server" --unattended halt
  hermes jobs list
  hermes jobs remove job_06h00k5sv3a2ovn28hk0a80nvk

Jobs run while hermes up, or the services, are running."""

MAX_JOBS = 1000
UNATTENDED = {
    "": approval_pb2.UNATTENDED_POLICY_UNSPECIFIED,
    "deny": approval_pb2.UNATTENDED_POLICY_DENY,
    "wait": approval_pb2.UNATTENDED_POLICY_WAIT,
    "halt": approval_pb2.UNATTENDED_POLICY_HALT,
}

_NAMES = {policy: name for name, policy in UNATTENDED.items()}

CLI = "cli"
ANY_CHAT = "terminal"
"""No session's id: whichever terminal talks next is told."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes jobs`."""
    actions = Actions(parser, "add|list|remove")
    add = actions.add("add", "add a job")
    add.add_argument("schedule", help='such as "every 2h", "every monday 8am", "0 9 * * mon-fri"')
    add.add_argument("prompt", help="what Hermes is asked each time")
    add.add_argument("--name", default="", help="a name to know it by")
    add.add_argument("--time-zone", default="", metavar="ZONE", help="such as Europe/Berlin")
    add.add_argument(
        "--to", default="", metavar="PLATFORM:CHAT", help="where the output goes (this terminal)"
    )
    add.add_argument(
        "--sandbox", default="", metavar="TEMPLATE", help="template of its sandboxes (sandbox.jobs)"
    )
    add.add_argument(
        "--unattended",
        default="",
        choices=tuple(UNATTENDED)[1:],
        help="calls that somebody must allow are not run, wait for hermes approvals, "
        "or end the run (approvals.unattended)",
    )
    add.add_argument("--json", action="store_true", help="one JSON object")
    listing = actions.add("list", "the jobs, the one due next first")
    listing.add_argument("--json", action="store_true", help="one JSON list")
    remove = actions.add("remove", "remove a job")
    remove.add_argument("job_id", metavar="ID", help="the job, as list shows it")


def destination(to: str) -> Origin:
    """Where the output of a job goes; a terminal that is open by then where nothing is named."""
    platform, _, chat = (to or "cli:terminal").partition(":")
    if not platform or not chat:
        raise InvalidArgument(f"--to takes PLATFORM:CHAT, such as telegram:12345, not {to!r}")
    return Origin(platform=platform, chat_id=chat, trust=TRUST_OWNER)


def run(arguments: argparse.Namespace) -> int:
    """Adds, lists or removes."""
    settings = load(arguments)
    settings.home.create()
    actions = {"add": _add, "list": _list, "remove": _remove}
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(actions[arguments.action](settings, arguments))
    return 0


async def _add(settings: Settings, arguments: argparse.Namespace) -> None:
    if arguments.sandbox:
        await _check_template(settings, arguments.sandbox)
    request = job_pb2.CreateJobRequest(
        job_id=new_id("job"),
        profile=arguments.profile or "",
        schedule=arguments.schedule,
        prompt=arguments.prompt,
        name=arguments.name,
        time_zone=arguments.time_zone,
        origin=destination(arguments.to),
        sandbox_template=arguments.sandbox,
        unattended=UNATTENDED[arguments.unattended],
    )
    runs = await has_services(settings, ("scheduler",))
    async with connected(settings, ("scheduler",)) as channels:
        answer = await JobServiceStub(channels.to("scheduler")).CreateJob(request)
    if arguments.json:
        print_json(_described(answer.job))
        return
    say(f"{answer.job.job_id}  next run {_local(answer.job.next_run_time)}")
    if not runs:
        complain("jobs run while hermes is running; start it with: hermes up")


async def _check_template(settings: Settings, wanted: str) -> None:
    """Refuse a template that no executor has, where one can be asked."""
    try:
        async with executors(settings) as deployment:
            told = [kind for one in deployment.each for kind in one.capabilities.backends]
    except EXPECTED as error:
        complain(f"whether there is a template {wanted} is not known: {explain(error)}")
        return
    names = dict.fromkeys(kind.template for kind in told if kind.template)
    if wanted not in names:
        listed = ", ".join(names)
        raise InvalidArgument(f"there is no template {wanted!r} of sandboxes; choose of: {listed}")
    meant = [kind for kind in told if kind.template == wanted]
    if not any(kind.available for kind in meant):
        complain(f"no sandbox of template {wanted} can be had now: {meant[0].detail}")


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("scheduler",)) as channels:
        answer = await JobServiceStub(channels.to("scheduler")).ListJobs(
            job_pb2.ListJobsRequest(profile=arguments.profile or "", page_size=MAX_JOBS)
        )
    if arguments.json:
        print_json([_described(job) for job in answer.jobs])
    elif answer.jobs:
        print_table(
            ("job", "next run", "schedule", "name", "sandbox"),
            [
                (
                    job.job_id,
                    _local(job.next_run_time),
                    job.schedule,
                    printable(job.name),
                    job.sandbox_template,
                )
                for job in answer.jobs
            ],
        )
        for job in answer.jobs:
            if error := _last_error(job):
                say(f"{job.job_id} failed last time: {printable(error)}")
    else:
        say('There are no jobs yet; add one with: hermes jobs add "every 2h" "…"')


async def _remove(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("scheduler",)) as channels:
        await JobServiceStub(channels.to("scheduler")).DeleteJob(
            job_pb2.DeleteJobRequest(job_id=arguments.job_id, profile=arguments.profile or "")
        )
    say(f"{arguments.job_id} is removed")


def _last_error(job: job_pb2.Job) -> str:
    """Why the last run that has ended failed; empty when it did not, or none has."""
    return job.last_error or job.last_delivery_error


def _described(job: job_pb2.Job) -> dict[str, Any]:
    next_run = job.next_run_time.ToJsonString() if job.HasField("next_run_time") else None
    return {
        "job_id": job.job_id,
        "name": job.name,
        "schedule": job.schedule,
        "time_zone": job.time_zone,
        "next_run_at": next_run,
        "prompt": job.prompt,
        "sandbox": job.sandbox_template or None,
        "unattended": _NAMES.get(job.unattended) or None,
        "last_error": _last_error(job) or None,
    }


def _local(moment: Timestamp) -> str:
    if not moment.seconds:
        return "—"
    return f"{moment.ToDatetime(UTC).astimezone():%Y-%m-%d %H:%M:%S}"
