"""What a job may ask for, as options of `hermes jobs add` and `hermes jobs edit`."""

import argparse
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from hermes.common.v1 import approval_pb2
from hermes.scheduler.v1 import job_options_pb2 as pb
from services.cli.arguments import up_to
from services.cli.standard_input import read_up_to
from services.errors import InvalidArgument

MAX_SCRIPT_BYTES = 64 * 1024
UNATTENDED = {
    "deny": approval_pb2.UNATTENDED_POLICY_DENY,
    "wait": approval_pb2.UNATTENDED_POLICY_WAIT,
    "halt": approval_pb2.UNATTENDED_POLICY_HALT,
}
MISSED = {
    "once": pb.MISSED_RUN_POLICY_ONCE,
    "skip": pb.MISSED_RUN_POLICY_SKIP,
    "all": pb.MISSED_RUN_POLICY_ALL,
}
OVERLAP = {
    "forbid": pb.OVERLAP_POLICY_FORBID,
    "allow": pb.OVERLAP_POLICY_ALLOW,
    "replace": pb.OVERLAP_POLICY_REPLACE,
}
CLEARED: Mapping[str, tuple[str, ...]] = {
    "name": ("name",),
    "skills": ("options.skills",),
    "model": ("options.model",),
    "toolsets": ("options.toolsets",),
    "script": ("options.script", "options.script_mode"),
    "no-agent": ("options.script_mode",),
    "context": ("options.context_job_ids",),
    "workdir": ("options.workdir",),
    "to": ("options.deliver_to",),
    "runs": ("options.max_runs",),
    "missed": ("options.missed_run_policy", "options.max_missed_runs"),
    "grace": ("options.missed_run_grace",),
    "overlap": ("options.overlap_policy",),
    "jitter": ("options.jitter",),
    "timeout": ("options.timeout",),
    "retries": ("options.max_retries", "options.retry_backoff"),
    "budget": ("options.budget_micro_usd", "options.budget_tokens"),
    "unattended": ("unattended",),
    "sandbox": ("sandbox_template",),
    "denied": ("denied_commands",),
}
"""What can have its default again, with its fields of a job."""

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONG = re.compile(r"(?:\d{1,9}[smhdw])+")
_MICRO = 1_000_000
_MOST_MICRO_USD = 10**15
_WHOLE_CHATS = ("!", "@", "#")
"""How chats begin whose ids have a colon of their own."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options, none of which has a default: what is not named stays as it is."""
    parser.add_argument("--name", help="a name to know it by (the start of the prompt)")
    parser.add_argument("--time-zone", metavar="ZONE", help="such as Europe/Berlin (timezone)")
    parser.add_argument(
        "--to",
        "--deliver",
        action="append",
        metavar="PLATFORM:CHAT[:THREAD]",
        help="where the output goes, a platform alone for its home channel, 'origin', or 'local' "
        "for nowhere; once for each place (this terminal)",
    )
    _add_work(parser)
    _add_timing(parser)
    parser.add_argument(
        "--budget-usd", metavar="AMOUNT", type=_micro_usd, help="what all its runs may cost"
    )
    parser.add_argument(
        "--budget-tokens", metavar="N", type=up_to(10**15), help="tokens that they may use"
    )
    parser.add_argument(
        "--unattended",
        choices=tuple(UNATTENDED),
        help="calls that somebody must allow are not run, wait for hermes approvals, "
        "or end the run (approvals.unattended)",
    )
    parser.add_argument(
        "--sandbox", metavar="TEMPLATE", help="template of its sandboxes (sandbox.jobs)"
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="the model of its runs (model.default)")
    for name, metavar, meaning in (
        ("--skill", "NAME", "a skill that it is given to follow; once for each"),
        ("--toolset", "NAME", "a toolset that it has; once for each (all but cron, messaging, …)"),
        ("--context-from", "JOB", "a job whose latest output it is shown; once for each"),
    ):
        parser.add_argument(name, action="append", metavar=metavar, help=meaning)
    parser.add_argument(
        "--script",
        metavar="FILE",
        help="a shell script that runs first, in its sandbox, and decides whether the model is "
        "asked; - reads standard input",
    )
    parser.add_argument(
        "--no-agent", action="store_true", help="the script is the whole run; no model is asked"
    )
    parser.add_argument("--workdir", metavar="FOLDER", help="a folder of the executor to work in")


def _add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", metavar="N", type=up_to(1_000_000, 1), help="end after so many runs (without end)"
    )
    parser.add_argument(
        "--missed",
        choices=tuple(MISSED),
        help="due times that nobody was awake for get one run together, none, or one each (once)",
    )
    parser.add_argument(
        "--max-missed",
        metavar="N",
        type=up_to(100, 1),
        help="with --missed all, at most so many (10)",
    )
    parser.add_argument(
        "--overlap",
        choices=tuple(OVERLAP),
        help="when it is due while a run is under way it waits, runs beside it, or takes its "
        "place (forbid)",
    )
    for name, meaning in (
        ("--grace", "with --missed once, how late a run may be (a day; no limit if it runs once)"),
        ("--jitter", "start up to so much later, each time another"),
        ("--timeout", "stop a run that takes longer"),
        ("--backoff", "wait so long before the first retry, then twice as long each time (30s)"),
    ):
        parser.add_argument(name, metavar="TIME", type=_duration, help=f"{meaning}; such as 10m")
    parser.add_argument(
        "--retries", metavar="N", type=up_to(10), help="try a failed run again so often (0)"
    )


def given_options(arguments: argparse.Namespace, context_ids: list[str]) -> dict[str, Any]:
    """The fields of a job's options that somebody has named; InvalidArgument says what is odd."""
    policies = {"missed": MISSED, "overlap": OVERLAP}
    named = {
        "model": arguments.model,
        "skills": arguments.skill,
        "toolsets": arguments.toolset,
        "workdir": arguments.workdir,
        "context_job_ids": context_ids or None,
        "deliver_to": arguments.to and list(map(target, arguments.to)),
        "script": arguments.script and _script(arguments.script),
        "script_mode": pb.SCRIPT_MODE_ONLY if arguments.no_agent else None,
        "max_runs": arguments.runs,
        "missed_run_policy": arguments.missed and policies["missed"][arguments.missed],
        "max_missed_runs": arguments.max_missed,
        "missed_run_grace": arguments.grace,
        "overlap_policy": arguments.overlap and policies["overlap"][arguments.overlap],
        "jitter": arguments.jitter,
        "timeout": arguments.timeout,
        "max_retries": arguments.retries,
        "retry_backoff": arguments.backoff,
        "budget_micro_usd": arguments.budget_usd,
        "budget_tokens": arguments.budget_tokens,
    }
    return {field: value for field, value in named.items() if value is not None}


def target(text: str) -> pb.DeliveryTarget:
    """A place that output goes to; InvalidArgument says how one is written."""
    platform, _, chat = text.partition(":")
    if re.fullmatch(r"[a-z][a-z_]*", text):
        # Where a platform has a home channel, that is meant.
        return pb.DeliveryTarget(platform=text)
    if not platform or not chat:
        raise InvalidArgument(
            f"--to takes PLATFORM:CHAT, such as telegram:12345, or origin or local, not {text!r}"
        )
    thread = ""
    if not chat.startswith(_WHOLE_CHATS):
        chat, _, thread = chat.partition(":")
    return pb.DeliveryTarget(platform=platform, chat_id=chat, thread_id=thread)


def target_text(place: pb.DeliveryTarget) -> str:
    """A place as somebody would write it."""
    return ":".join(filter(None, (place.platform, place.chat_id, place.thread_id)))


def duration_text(length: Duration) -> str:
    """A length of time as somebody would write it."""
    left, parts = length.seconds, list[str]()
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS_S[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _duration(text: str) -> Duration:
    """The type of a length of time such as `90s`, `10m` or `1h30m`."""
    if _LONG.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 10m or 1h30m")
    found = re.findall(r"(\d+)(\w)", text)
    seconds = sum(int(count) * _UNITS_S[unit] for count, unit in found)
    if seconds > 366 * _UNITS_S["d"]:
        raise argparse.ArgumentTypeError(f"{text} is longer than 366 days")
    return Duration(seconds=seconds)


def _micro_usd(text: str) -> int:
    try:
        amount = Decimal(text.removeprefix("$")) * _MICRO
    except InvalidOperation:
        amount = Decimal(0)
    if not (amount.is_finite() and 1 <= amount <= _MOST_MICRO_USD):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of dollars such as 2.50")
    return int(amount)


def _script(path: str) -> str:
    """What a file says, or standard input; InvalidArgument where it is no script."""
    try:
        data = read_up_to(Path(path).expanduser(), MAX_SCRIPT_BYTES)
        text = data.decode()
    except OSError as error:
        raise InvalidArgument(f"--script {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"--script {path} is no UTF-8 text") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise InvalidArgument(f"--script {path} has more than {MAX_SCRIPT_BYTES} bytes")
    if not text.strip():
        raise InvalidArgument(f"--script {path} is empty")
    return text
