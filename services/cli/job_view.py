"""Jobs and their runs, as people and scripts see them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from hermes.scheduler.v1 import job_options_pb2 as options_pb
from hermes.scheduler.v1 import job_pb2, run_pb2, schedule_pb2
from services.cli.console import printable, say
from services.cli.job_options import MISSED, OVERLAP, UNATTENDED, duration_text, target_text
from services.cli.output import dollars
from services.cli.tables import print_table

_UNATTENDED = {number: name for name, number in UNATTENDED.items()}
_MISSED = {number: name for name, number in MISSED.items()}
_OVERLAP = {number: name for name, number in OVERLAP.items()}
_DURATIONS = {
    "missed_run_grace": "grace_s",
    "jitter": "jitter_s",
    "timeout": "timeout_s",
    "retry_backoff": "backoff_s",
}
NOTHING = "—"


def state_of(job: job_pb2.Job) -> str:
    """Where a job is in its life."""
    return job_pb2.JobState.Name(job.state).removeprefix("JOB_STATE_").lower()


def run_state_of(state: "run_pb2.RunState.ValueType") -> str:
    """Where a run is in its life."""
    return run_pb2.RunState.Name(state).removeprefix("RUN_STATE_").lower()


def last_error(job: job_pb2.Job) -> str:
    """Why the last run that has ended failed; empty when it did not, or none has."""
    return job.last_error or job.last_delivery_error


def described(job: job_pb2.Job) -> dict[str, Any]:
    """A job for a script."""
    options = job.options
    return {
        "job_id": job.job_id,
        "name": job.name,
        "state": state_of(job),
        "pause_reason": job.pause_reason or None,
        "schedule": job.schedule,
        "kind": schedule_pb2.ScheduleKind.Name(job.kind).removeprefix("SCHEDULE_KIND_").lower(),
        "time_zone": job.time_zone,
        "next_run_at": iso(job.next_run_time),
        "prompt": job.prompt,
        "to": _places(job),
        "sandbox": job.sandbox_template or None,
        "unattended": _UNATTENDED.get(job.unattended),
        "denied": list(job.denied_commands),
        "skills": list(options.skills),
        "model": options.model or None,
        "toolsets": list(options.toolsets),
        "script": options.script or None,
        "no_agent": options.script_mode == options_pb.SCRIPT_MODE_ONLY,
        "context_from": list(options.context_job_ids),
        "workdir": options.workdir or None,
        "runs": options.max_runs or None,
        "missed": _MISSED.get(options.missed_run_policy, "once"),
        "max_missed": options.max_missed_runs,
        "overlap": _OVERLAP.get(options.overlap_policy, "forbid"),
        "retries": options.max_retries,
        **{name: _seconds(options, field) for field, name in _DURATIONS.items()},
        "budget_micro_usd": options.budget_micro_usd or None,
        "budget_tokens": options.budget_tokens or None,
        "created_at": iso(job.create_time),
        "run_count": job.run_count,
        "last_run_at": iso(job.last_run_time),
        "last_state": run_state_of(job.last_run_state) if job.last_run_time.seconds else None,
        "last_error": last_error(job) or None,
    }


def described_run(run: run_pb2.Run, *, output: bool) -> dict[str, Any]:
    """A run for a script."""
    told = {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "state": run_state_of(run.state),
        "scheduled_for": iso(run.scheduled_for),
        "requested": run.is_requested,
        "claimed_at": iso(run.claim_time),
        "started_at": iso(run.start_time),
        "finished_at": iso(run.finish_time),
        "lateness_s": _lateness_s(run),
        "duration_s": _between(run.start_time, run.finish_time),
        "attempt": run.attempt,
        "not_before": iso(run.not_before_time),
        "silent": run.is_silent,
        "error": run.error or None,
        "delivery_error": run.delivery_error or None,
        "session_id": run.session_id or None,
    }
    return told | ({"output": run.output} if output else {})


def show(job: job_pb2.Job) -> None:
    """A job for a person."""
    for name, value in _lines(job):
        say(printable(f"{name:<12} {value}"))
    if job.prompt:
        say(f"\n{printable(job.prompt)}")
    if job.options.script:
        say(f"\nscript:\n{printable(job.options.script).rstrip()}")


def show_list(jobs: Sequence[job_pb2.Job]) -> None:
    """Jobs for a person, and why some failed."""
    print_table(
        ("job", "next run", "schedule", "name", "state", "last run", "sandbox"),
        [
            (
                job.job_id,
                local(job.next_run_time, job.time_zone),
                printable(job.schedule),
                printable(job.name),
                state_of(job),
                run_state_of(job.last_run_state) if job.last_run_time.seconds else "",
                job.sandbox_template,
            )
            for job in jobs
        ],
    )
    for job in jobs:
        if error := last_error(job):
            say(f"{job.job_id} failed last time: {printable(error)}")
        if job.pause_reason:
            say(f"{job.job_id} is paused: {printable(job.pause_reason)}")


def show_runs(runs: Sequence[run_pb2.Run], zone: str) -> None:
    """Runs for a person, in the zone of their job."""
    print_table(
        ("run", "due", "state", "late", "took", "error"),
        [
            (
                run.run_id,
                local(run.scheduled_for, zone),
                (waiting(run, zone) or run_state_of(run.state))
                + (" (asked for)" if run.is_requested else ""),
                _length(_lateness_s(run)),
                _length(_between(run.start_time, run.finish_time)),
                printable(_first_line(run.error or run.delivery_error)),
            )
            for run in runs
        ],
    )


def waiting(run: run_pb2.Run, zone: str) -> str:
    """What a run waits for that is put off; empty where it is not."""
    starts = run.not_before_time
    if run.state != run_pb2.RUN_STATE_CLAIMED or starts.ToDatetime(UTC) <= datetime.now(UTC):
        return ""
    # What is left of a day: whoever reads it knows which.
    is_soon = starts.ToDatetime(UTC) - datetime.now(UTC) < timedelta(hours=12)
    at = local(starts, zone)
    at = at.partition(" ")[2] if is_soon else at
    return f"waits, attempt {run.attempt} at {at}" if run.attempt > 1 else f"waits, starts at {at}"


def due_times(times: Sequence[datetime], zone: str) -> str:
    """Due times in a zone, one a line."""
    shown = [f"{at.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M:%S %Z}" for at in times]
    return "\n".join(f"  {line}" for line in shown)


def iso(moment: Timestamp) -> str | None:
    """A time for a script."""
    return moment.ToJsonString() if moment.seconds else None


def local(moment: Timestamp, zone: str) -> str:
    """A time for a person, by the clock of a zone."""
    if not moment.seconds:
        return NOTHING
    return f"{moment.ToDatetime(UTC).astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"


def _places(job: job_pb2.Job) -> list[str]:
    """Where the output goes."""
    origin = ":".join(filter(None, (job.origin.platform, job.origin.chat_id, job.origin.thread_id)))
    named = [target_text(place) for place in job.options.deliver_to]
    places = [origin or "local" if place == "origin" else place for place in named or ["origin"]]
    return list(dict.fromkeys(places))


def _lines(job: job_pb2.Job) -> Iterator[tuple[str, str]]:
    options = job.options
    yield "job", job.job_id
    yield "name", job.name
    yield "state", state_of(job)
    if job.pause_reason:
        yield "because", job.pause_reason
    yield "schedule", f"{job.schedule}  ({job.time_zone})"
    yield "next run", local(job.next_run_time, job.time_zone)
    ran = f"{run_state_of(job.last_run_state)} at {local(job.last_run_time, job.time_zone)}"
    yield "last run", ran if job.last_run_time.seconds else NOTHING
    if error := last_error(job):
        yield "error", error
    of = f" of {options.max_runs}" if options.max_runs else ""
    yield "runs so far", f"{job.run_count}{of}"
    yield "output to", ", ".join(_places(job))
    for name, value in _asked(job):
        if value:
            yield name, value


def _asked(job: job_pb2.Job) -> Iterator[tuple[str, str]]:
    """What differs from the defaults; empty where it does not."""
    options = job.options
    yield "model", options.model
    yield "skills", ", ".join(options.skills)
    yield "toolsets", ", ".join(options.toolsets)
    yield "context", ", ".join(options.context_job_ids)
    yield "folder", options.workdir
    yield "sandbox", job.sandbox_template
    yield "unattended", _UNATTENDED.get(job.unattended, "")
    yield "denied", ", ".join(job.denied_commands)
    if options.script_mode == options_pb.SCRIPT_MODE_ONLY:
        yield "agent", "not asked: the script is the whole run"
    missed = _MISSED.get(options.missed_run_policy, "once")
    yield "missed", f"all, at most {options.max_missed_runs}" if missed == "all" else missed
    yield "overlap", _OVERLAP.get(options.overlap_policy, "forbid")
    for name in ("missed_run_grace", "jitter", "timeout"):
        seconds = _seconds(options, name)
        told = name.rpartition("_")[2]
        yield told, "" if seconds is None else duration_text(Duration(seconds=seconds))
    if options.max_retries:
        first = duration_text(options.retry_backoff)
        yield "retries", f"{options.max_retries}, the first after {first}"
    budget = [dollars(options.budget_micro_usd)] if options.budget_micro_usd else []
    budget += [f"{options.budget_tokens:,} tokens"] if options.budget_tokens else []
    yield "budget", ", ".join(budget)


def _seconds(message: Message, field: str) -> int | None:
    return getattr(message, field).seconds if message.HasField(field) else None


def _lateness_s(run: run_pb2.Run) -> float | None:
    """How long after it was due somebody took it up; of one that was asked for, none."""
    return None if run.is_requested else _between(run.scheduled_for, run.claim_time)


def _between(start: Timestamp, end: Timestamp) -> float | None:
    if not start.seconds or not end.seconds:
        return None
    return round((end.ToNanoseconds() - start.ToNanoseconds()) / 1e9, 3)


def _length(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
