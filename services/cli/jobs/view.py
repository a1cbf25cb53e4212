"""Jobs and their runs for people and programs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from google.protobuf.timestamp_pb2 import Timestamp

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


def _last_run(job: job_pb2.Job) -> str:
    at = local(job.last_run_time, job.time_zone)
    return f"{field_value(job, 'last_run_state')} at {at}" if job.last_run_time.seconds else NOTHING


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


JOB = (
    Column("job", "job_id"),
    Column("name"),
    Column("state"),
    Column("because", "pause_reason"),
    Column("schedule", lambda job: f"{job.schedule}  ({job.time_zone})"),
    Column("next run", _next_run),
    Column("last run", _last_run),
    Column("error", last_error),
    Column("runs so far", "run_count"),
    Column("output to", _places),
    Column("model", "options.model"),
    Column("skills", "options.skills"),
    Column("toolsets", "options.toolsets"),
    Column("context", "options.context_job_ids"),
    Column("folder", "options.workdir"),
    Column("sandbox", "sandbox_template"),
    Column("unattended"),
    Column("denied", "denied_commands"),
    Column("script only", "options.script_mode", lambda mode: "yes" if mode == "only" else ""),
    Column("runs at most", "options.max_runs", _if_any),
    Column("missed", "options.missed_run_policy"),
    Column("overlap", "options.overlap_policy"),
    Column("grace", "options.missed_run_grace", duration_text),
    Column("jitter", "options.jitter", duration_text),
    Column("timeout", "options.timeout", duration_text),
    Column("retries", _retries),
    Column("budget", "options.budget_micro_usd", _money),
    Column("tokens", "options.budget_tokens", _if_any),
)
JOB_LIST = (
    Column("job", "job_id"),
    Column("next run", _next_run),
    *map(Column, ("schedule", "name", "state")),
    Column("last run", "last_run_state", lambda state: state or ""),
    Column("sandbox", "sandbox_template"),
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


def run_list(zone: str) -> Sequence[Column]:
    """Return the columns of runs, in the zone of their job."""

    def state(run: run_pb2.Run) -> str:
        shown = waiting(run, zone) or field_value(run, "state")
        return f"{shown} (asked for)" if run.is_requested else shown

    def error(run: run_pb2.Run) -> str:
        return (run.error or run.delivery_error).strip().partition("\n")[0]

    return (
        Column("run", "run_id"),
        Column("due", lambda run: local(run.scheduled_for, zone)),
        Column("state", state),
        Column("late", _lateness_s, duration),
        Column("took", _duration_s, duration),
        Column("error", error),
    )


def waiting(run: run_pb2.Run, zone: str) -> str:
    """Return what a postponed run waits for, or empty."""
    starts = run.not_before_time
    if run.state != run_pb2.RUN_STATE_CLAIMED or starts.ToDatetime(UTC) <= datetime.now(UTC):
        return ""
    at = local(starts, zone)
    return f"waits, attempt {run.attempt} at {at}" if run.attempt > 1 else f"waits, starts at {at}"
