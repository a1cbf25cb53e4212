"""What a job may ask for, as options of `hermes jobs add` and `hermes jobs edit`.

Where an option is a field of a job's options, it is kept by the name of the field.
"""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from hermes.common.v1.approval_pb2 import UnattendedPolicy
from hermes.scheduler.v1 import job_options_pb2 as pb
from services.cli.arguments import MOST, UNITS_S, length, micro_usd, up_to
from services.cli.command import arg, flag
from services.cli.standard_input import read_up_to
from services.errors import InvalidArgument

MAX_SCRIPT_BYTES = 64 * 1024
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

_WHOLE_CHATS = ("!", "@", "#")
"""How chats begin whose ids have a colon of their own."""


def target(text: str) -> pb.DeliveryTarget:
    """The type of a place that output goes to."""
    platform, _, chat = text.partition(":")
    if re.fullmatch(r"[a-z][a-z_]*", text):
        # Where a platform has a home channel, that is meant.
        return pb.DeliveryTarget(platform=text)
    if not platform or not chat:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not PLATFORM:CHAT, such as telegram:12345, and not origin or local"
        )
    thread = ""
    if not chat.startswith(_WHOLE_CHATS):
        chat, _, thread = chat.partition(":")
    return pb.DeliveryTarget(platform=platform, chat_id=chat, thread_id=thread)


def target_text(place: pb.DeliveryTarget) -> str:
    """A place as somebody would write it."""
    return ":".join(filter(None, (place.platform, place.chat_id, place.thread_id)))


_FIELDS = (
    *("model", "skills", "toolsets", "workdir", "deliver_to", "max_runs", "max_missed_runs"),
    *("missed_run_grace", "jitter", "timeout", "max_retries", "retry_backoff"),
    *("budget_micro_usd", "budget_tokens"),
)
_SEVERAL = (
    ("--skill", "skills", "NAME", "a skill that it is given to follow"),
    ("--toolset", "toolsets", "NAME", "a toolset that it has (all but cron, messaging, …)"),
    ("--context-from", "context_from", "JOB", "a job whose latest output it is shown"),
)
_NUMBERS = (
    ("--runs", "max_runs", up_to(1_000_000, 1), "end after so many runs (without end)"),
    ("--max-missed", "max_missed_runs", up_to(100, 1), "with --missed all, at most so many (10)"),
    ("--retries", "max_retries", up_to(10), "try a failed run again so often (0)"),
    ("--budget-tokens", "budget_tokens", up_to(MOST), "tokens that its runs may use"),
)
_LATE = "with --missed once, how late a run may be"
_LENGTHS = (
    ("--grace", "missed_run_grace", f"{_LATE} (a day; no limit if it runs once)"),
    ("--jitter", "jitter", "start up to so much later, each time another"),
    ("--timeout", "timeout", "stop a run that takes longer"),
    ("--backoff", "retry_backoff", "wait before the first retry, then twice as long each (30s)"),
)
_TO = """\
where the output goes, a platform alone for its home channel, 'origin', or 'local' for nowhere; \
once for each place (this terminal)"""
_MISSED = "due times that nobody was awake for get one run together, none, or one each (once)"
_OVERLAP = "when it is due while a run is under way it waits, runs beside or replaces it (forbid)"
_SCRIPT = """\
a shell script that runs first, in its sandbox, and decides whether the model is asked; \
- reads standard input"""
_UNATTENDED = """\
calls that somebody must allow are not run, wait for hermes approvals, or end the run \
(approvals.unattended)"""
_PLACE = "PLATFORM:CHAT[:THREAD]"
OPTIONS = (
    arg("--name", help="a name to know it by (the start of the prompt)"),
    arg("--time-zone", metavar="ZONE", help="such as Europe/Berlin (timezone)"),
    arg(
        *("--to", "--deliver"),
        dest="deliver_to",
        action="append",
        type=target,
        metavar=_PLACE,
        help=_TO,
    ),
    arg("--model", metavar="NAME", help="the model of its runs (model.default)"),
    *(
        arg(name, dest=dest, action="append", metavar=what, help=f"{meaning}; once for each")
        for name, dest, what, meaning in _SEVERAL
    ),
    arg("--script", metavar="FILE", help=_SCRIPT),
    flag("--no-agent", "the script is the whole run; no model is asked"),
    arg("--workdir", metavar="FOLDER", help="a folder of the executor to work in"),
    arg("--missed", choices=("once", "skip", "all"), help=_MISSED),
    arg("--overlap", choices=("forbid", "allow", "replace"), help=_OVERLAP),
    *(
        arg(name, dest=field, metavar="N", type=kind, help=meaning)
        for name, field, kind, meaning in _NUMBERS
    ),
    *(
        arg(name, dest=field, metavar="TIME", type=length(366), help=f"{meaning}; such as 10m")
        for name, field, meaning in _LENGTHS
    ),
    arg(
        "--budget-usd",
        dest="budget_micro_usd",
        metavar="AMOUNT",
        type=micro_usd,
        help="what all its runs may cost",
    ),
    arg("--unattended", choices=("deny", "wait", "halt"), help=_UNATTENDED),
    arg("--sandbox", metavar="TEMPLATE", help="template of its sandboxes (sandbox.jobs)"),
)


def given_options(given: argparse.Namespace, context_ids: list[str]) -> dict[str, Any]:
    """The fields of a job's options that somebody has named; InvalidArgument says what is odd."""
    missed, overlap = given.missed, given.overlap
    named: dict[str, Any] = {
        **{field: getattr(given, field) for field in _FIELDS},
        "context_job_ids": context_ids or None,
        "script": given.script and _script(given.script),
        "script_mode": pb.SCRIPT_MODE_ONLY if given.no_agent else None,
        "missed_run_policy": missed and pb.MissedRunPolicy.Value(_value("MISSED_RUN", missed)),
        "overlap_policy": overlap and pb.OverlapPolicy.Value(_value("OVERLAP", overlap)),
    }
    return {field: value for field, value in named.items() if value is not None}


def unattended(given: argparse.Namespace) -> UnattendedPolicy.ValueType | None:
    """What becomes of calls that somebody must allow; None where that is not said."""
    chosen = given.unattended
    return chosen and UnattendedPolicy.Value(_value("UNATTENDED", chosen))


def _value(kind: str, word: str) -> str:
    return f"{kind}_POLICY_{word.upper()}"


def duration_text(time: Duration | None) -> str:
    """A length of time as somebody would write it."""
    if time is None:
        return ""
    left, parts = time.seconds, list[str]()
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, UNITS_S[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


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
