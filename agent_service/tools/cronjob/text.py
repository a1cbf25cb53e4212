"""Formats jobs for the model."""

from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from agent_service.records.jobs import JobView

SHOWN_JOBS = 50
PROMPT_CHARS = 160
ERROR_CHARS = 300

NO_JOBS = "There are no jobs yet."


def scheduled(job: JobView, done: str) -> str:
    """What happened to a job, and when it runs next."""
    first = f"“{job.name}” ({job.id}) {done}: {job.schedule}."
    text = f"{first} {_next(job)} Output goes to {', '.join(job.deliver_to)}."
    return "\n".join((text, *(f"Note: {note}." for note in job.notes)))


def listed(jobs: Sequence[JobView]) -> str:
    """The jobs, each in a few lines."""
    if not jobs:
        return NO_JOBS
    lines = [line for job in jobs[:SHOWN_JOBS] for line in _lines(job)]
    if len(jobs) > SHOWN_JOBS:
        lines.append(f"… and {len(jobs) - SHOWN_JOBS} more, which run later")
    return "\n".join(lines)


def errors_of(jobs: Sequence[JobView]) -> str:
    """Errors of the last runs and deliveries; empty if there are none."""
    failed = [job for job in jobs[:SHOWN_JOBS] if job.error]
    return "\n".join(f"{job.id}: {_short(job.error, ERROR_CHARS)}" for job in failed)


def _lines(job: JobView) -> list[str]:
    lines = [f"{job.id} “{job.name}”: {job.schedule}. {_next(job)}"]
    if job.prompt:
        lines.append(f"  prompt: {_short(job.prompt, PROMPT_CHARS)}")
    lines += [f"  {name}: {value}" for name, value in _details(job) if value]
    if job.last_run_time is not None:
        went = "failed, see below" if job.error else "succeeded"
        lines.append(f"  last run: {_time(job.last_run_time, job.time_zone)}, {went}")
    return lines


def _details(job: JobView) -> list[tuple[str, str]]:
    wish = job.wish
    script = (
        ("is the whole run" if wish.script_mode == "only" else "runs first") if wish.script else ""
    )
    return [
        ("to", ", ".join(job.deliver_to)),
        ("skills", ", ".join(wish.skills or ())),
        ("model", wish.model or ""),
        ("script", script),
        ("context from", ", ".join(wish.context_job_ids or ())),
        ("toolsets", ", ".join(wish.toolsets or ())),
        ("folder", wish.workdir or ""),
        ("repeat", f"{job.run_count} of {wish.max_runs} runs" if wish.max_runs else ""),
    ]


def _next(job: JobView) -> str:
    if job.state == "paused":
        return f"Paused: {job.pause_reason}." if job.pause_reason else "Paused."
    if job.next_run_time is None:
        return "It has ended."
    return f"Next run {_time(job.next_run_time, job.time_zone)}."


def _time(moment: datetime, time_zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(time_zone)):%Y-%m-%d %H:%M:%S} {time_zone}"


def _short(text: str, chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
