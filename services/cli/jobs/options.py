"""The options of `hermes jobs add` and `edit`, kept by field path such as `options.model`."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration

from services.cli.arguments import MOST, UNITS_S, length, micro_usd, up_to
from services.cli.command import Argument, arg, choice
from services.cli.standard_input import read_limited
from services.errors import InvalidArgument
from services.home.texts import decode_text

MAX_SCRIPT_BYTES = 64 * 1024


async def read_script(path: str) -> str:
    """Read a script from a file or standard input; raises InvalidArgument."""
    try:
        data = await read_limited(Path(path), MAX_SCRIPT_BYTES)
        text = decode_text(data)
    except OSError as error:
        raise InvalidArgument(f"--script {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"--script {path} is not UTF-8 text") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise InvalidArgument(f"--script {path} has more than {MAX_SCRIPT_BYTES} bytes")
    if not text.strip():
        raise InvalidArgument(f"--script {path} is empty")
    return text


_LATE = "with --missed once: maximum delay of a run"
_MAX_MISSED = "with --missed all: run at most N missed times (10)"
_COST = "maximum cost of all its runs"
_PLACE = "--to --deliver TARGET"
_TO = """\
where to deliver the output: a target as in hermes send, such as telegram or telegram:12345, or \
'local' for nowhere; repeatable (this terminal)"""
_MISSED = "after downtime: run once, skip the missed times, or run all of them (once)"
_OVERLAP = "if the last run is still in progress: wait, run in parallel, or replace it (forbid)"
_SCRIPT = """\
shell script that runs first in the sandbox and decides whether to ask the model; - reads \
standard input"""
_UNATTENDED = """\
if a tool call needs approval: deny it, wait for hermes approvals, or end the run \
(approvals.unattended)"""


def _several(form: str, field: str, meaning: str) -> Argument:
    return arg(form, f"{meaning}; repeatable", field=f"options.{field}", action="append")


def _number(form: str, field: str, most: int, meaning: str, least: int = 0) -> Argument:
    return arg(form, meaning, up_to(most, least), field=f"options.{field}")


def _time(name: str, field: str, meaning: str) -> Argument:
    return arg(f"{name} TIME", f"{meaning}, such as 10m", length(366), field=f"options.{field}")


def _choice(name: str, field: str, meaning: str, *choices: str) -> Argument:
    return arg(name, meaning, field=f"options.{field}", choices=choices)


OPTIONS = (
    arg("--name", "name of the job (the start of the prompt)"),
    arg("--time-zone ZONE", "time zone, such as Europe/Berlin (timezone)"),
    arg(_PLACE, _TO, field="options.deliver_to", action="append"),
    arg("--model NAME", "model to use (model.default)", field="options.model"),
    _several("--skill NAME", "skills", "skill to follow"),
    _several("--toolset NAME", "toolsets", "toolset to offer (all except cron, messaging, …)"),
    _several("--context-from JOB", "context_job_ids", "include the latest output of this job"),
    arg("--script FILE", _SCRIPT, field="options.script"),
    choice("--no-agent", "run only the script, and ask no model", "options.script_mode", "only"),
    arg("--workdir FOLDER", "folder on the executor's machine to work in", field="options.workdir"),
    _choice("--missed", "missed_run_policy", _MISSED, "once", "skip", "all"),
    _choice("--overlap", "overlap_policy", _OVERLAP, "forbid", "allow", "replace"),
    _number("--runs N", "max_runs", 1_000_000, "end the job after N runs (no limit)", 1),
    _number("--max-missed N", "max_missed_runs", 100, _MAX_MISSED, 1),
    _number("--retries N", "max_retries", 10, "retry a failed run up to N times (0)"),
    _number("--budget-tokens N", "budget_tokens", MOST, "maximum tokens of all its runs"),
    _time("--grace", "missed_run_grace", f"{_LATE} (1d; no limit for a single run)"),
    _time("--jitter", "jitter", "delay each run by a random time up to this"),
    _time("--timeout", "timeout", "stop a run after this time"),
    _time("--backoff", "retry_backoff", "wait before the first retry, then twice as long (30s)"),
    arg("--budget-usd AMOUNT", _COST, micro_usd, field="options.budget_micro_usd"),
    arg("--unattended", _UNATTENDED, choices=("deny", "wait", "halt")),
    arg("--sandbox TEMPLATE", "sandbox template (sandbox.jobs)", field="sandbox_template"),
)


CLEARED: Mapping[str, tuple[str, ...]] = {
    **{
        option.names[0].removeprefix("--"): (option.options.get("dest", option.names[0][2:]),)
        for option in OPTIONS
        if option.names[0] != "--time-zone"
    },
    "script": ("options.script", "options.script_mode"),
    "denied": ("denied_commands",),
}
"""What can be reset to its default, with its fields of a job."""


def option_of(path: str) -> str:
    """Return the name of the option that sets a field, without dashes."""
    of = {option.options.get("dest", ""): option.names[0].removeprefix("--") for option in OPTIONS}
    return of.get(path, path.replace("_", "-"))


def given_fields(given: argparse.Namespace) -> dict[str, Any]:
    """Return the given fields of a job by their paths; for a script, its file."""
    own = ("schedule", "prompt", "name", "time_zone", "sandbox_template", "unattended")
    named = {path: value for path, value in vars(given).items() if path.startswith("options.")}
    named |= {path: vars(given)[path] for path in own}
    return {path: value for path, value in named.items() if value is not None}


def duration_text(time: Duration | None) -> str:
    """Return a duration as users write it."""
    if time is None:
        return ""
    left, parts = time.seconds, list[str]()
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, UNITS_S[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
