"""Jobs and their runs for people and programs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.scheduler.v1 import job_options_pb2 as options_pb
from hermes.scheduler.v1 import job_pb2, run_pb2
from services.amounts import dollars
from services.cli.console import printable, say
from services.cli.jobs.options import duration_text
from services.cli.output import NOTHING, Column, duration, field_value, print_details


def local(moment: Timestamp, zone: str) -> str:
    """Format a time in a zone."""
    if not moment.seconds:
        return NOTHING
    return f"{moment.ToDatetime(UTC).astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"


def due_times(times: Sequence[datetime], zone: str) -> str:
    """Format due times in a zone, one per line."""
    shown = [f"{at.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M:%S %Z}" for at in times]
    return "\n".join(f"  {line}" for line in shown)


def last_error(job: job_pb2.Job) -> str:
    """Return why the last run failed; empty if it succeeded or there is none."""
    return job.last_error or job.last_delivery_error


def _last_state(job: job_pb2.Job) -> str | None:
    return field_value(job, "last_run_state") if job.last_run_time.seconds else None


def _last_run(job: job_pb2.Job) -> str:
    at = local(job.last_run_time, job.time_zone)
    return f"{_last_state(job)} at {at}" if job.last_run_time.seconds else NOTHING


def _next_run(job: job_pb2.Job) -> str:
    return local(job.next_run_time, job.time_zone)


def _places(job: job_pb2.Job) -> list[str]:
    origin = ":".join(filter(None, (job.origin.platform, job.origin.chat_id, job.origin.thread_id)))
    named = job.options.deliver_to or ["origin"]
    places = [origin or "local" if place == "origin" else place for place in named]
    return list(dict.fromkeys(places))


def _retries(job: job_pb2.Job) -> str:
    options = job.options
    first = duration_text(options.retry_backoff)
    return f"{options.max_retries}, the first after {first}" if options.max_retries else ""


def _if_any(count: int) -> str:
    return f"{count:,}" if count else ""


def _money(micro_usd: int) -> str:
    return dollars(micro_usd) if micro_usd else ""


def _is_script_alone(job: job_pb2.Job) -> bool:
    return job.options.script_mode == options_pb.SCRIPT_MODE_ONLY


JOB = (
    Column("job_id", "job"),
    Column("name", "name"),
    Column("state", "state"),
    Column("pause_reason", "because", optional=True),
    Column("schedule"),
    Column("", "schedule", lambda job: f"{job.schedule}  ({job.time_zone})"),
    *map(Column, ("kind", "time_zone")),
    Column("next_run_at", "", "next_run_time"),
    Column("", "next run", _next_run),
    Column("last_run_at", "", "last_run_time"),
    Column("last_state", "", _last_state),
    Column("", "last run", _last_run),
    Column("last_error", "error", last_error, optional=True),
    Column("run_count", "runs so far"),
    Column("to", "output to", _places),
    Column("prompt"),
    Column("model", "model", "options.model", optional=True),
    Column("skills", "skills", "options.skills"),
    Column("toolsets", "toolsets", "options.toolsets"),
    Column("context_from", "context", "options.context_job_ids"),
    Column("workdir", "folder", "options.workdir", optional=True),
    Column("sandbox", "sandbox", "sandbox_template", optional=True),
    Column("unattended", "unattended"),
    Column("denied", "denied", "denied_commands"),
    Column("script", "", "options.script", optional=True),
    Column("no_agent", "script only", _is_script_alone, lambda it: "yes" if it else ""),
    Column("runs", "runs at most", "options.max_runs", _if_any, optional=True),
    Column("missed", "missed", "options.missed_run_policy"),
    Column("max_missed", "", "options.max_missed_runs"),
    Column("overlap", "overlap", "options.overlap_policy"),
    Column("grace_s", "grace", "options.missed_run_grace", duration_text),
    Column("jitter_s", "jitter", "options.jitter", duration_text),
    Column("timeout_s", "timeout", "options.timeout", duration_text),
    Column("retries", "", "options.max_retries"),
    Column("backoff_s", "", "options.retry_backoff"),
    Column("", "retries", _retries),
    Column("budget_micro_usd", "budget", "options.budget_micro_usd", _money, optional=True),
    Column("budget_tokens", "tokens", "options.budget_tokens", _if_any, optional=True),
    Column("created_at", "", "create_time"),
)
JOB_LIST = (
    Column("", "job", "job_id"),
    Column("", "next run", _next_run),
    *(Column("", name, name) for name in ("schedule", "name", "state")),
    Column("", "last run", lambda job: _last_state(job) or ""),
    Column("", "sandbox", "sandbox_template"),
)


def show(job: job_pb2.Job) -> None:
    """Print a job."""
    print_details(job, JOB)
    if job.prompt:
        say(f"\n{printable(job.prompt)}")
    if job.options.script:
        say(f"\nscript:\n{printable(job.options.script).rstrip()}")


def _between(start: Timestamp, end: Timestamp) -> float | None:
    if not start.seconds or not end.seconds:
        return None
    return round((end.ToNanoseconds() - start.ToNanoseconds()) / 1e9, 3)


def _lateness_s(run: run_pb2.Run) -> float | None:
    """Return how long after its due time a run was claimed; None if it was requested."""
    return None if run.is_requested else _between(run.scheduled_for, run.claim_time)


def _duration_s(run: run_pb2.Run) -> float | None:
    return _between(run.start_time, run.finish_time)


RUN = (
    *map(Column, ("run_id", "job_id", "state", "scheduled_for")),
    Column("requested", source="is_requested"),
    Column("claimed_at", source="claim_time"),
    Column("started_at", source="start_time"),
    Column("finished_at", source="finish_time"),
    Column("lateness_s", source=_lateness_s),
    Column("duration_s", source=_duration_s),
    Column("attempt"),
    Column("not_before", source="not_before_time"),
    Column("silent", source="is_silent"),
    *(Column(name, optional=True) for name in ("error", "delivery_error", "session_id")),
)
OUTPUT = Column("output")


def run_list(zone: str) -> Sequence[Column]:
    """Return the columns of runs, in the zone of their job."""

    def state(run: run_pb2.Run) -> str:
        shown = waiting(run, zone) or field_value(run, "state")
        return f"{shown} (asked for)" if run.is_requested else shown

    def error(run: run_pb2.Run) -> str:
        return (run.error or run.delivery_error).strip().partition("\n")[0]

    return (
        Column("", "run", "run_id"),
        Column("", "due", lambda run: local(run.scheduled_for, zone)),
        Column("", "state", state),
        Column("", "late", _lateness_s, duration),
        Column("", "took", _duration_s, duration),
        Column("", "error", error),
    )


def waiting(run: run_pb2.Run, zone: str) -> str:
    """Return what a postponed run waits for, or empty."""
    starts = run.not_before_time
    if run.state != run_pb2.RUN_STATE_CLAIMED or starts.ToDatetime(UTC) <= datetime.now(UTC):
        return ""
    at = local(starts, zone)
    return f"waits, attempt {run.attempt} at {at}" if run.attempt > 1 else f"waits, starts at {at}"
