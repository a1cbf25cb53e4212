"""Writes jobs as the `cron/jobs.json` of a home; pure functions."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import to_builtins

from scheduler_service.home.jobs import OWN
from scheduler_service.jobs import Job, JobSpec, JobState, RunState
from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule

_ELSEWHERE = frozenset(
    {
        *("skills", "model", "script", "script_mode", "context_job_ids", "toolsets", "workdir"),
        "max_runs",
    }
)
"""Options with their own keys in the file."""


def document_of(jobs: Sequence[Job], now: datetime) -> bytes:
    """Encode jobs as a file from which they can be read back unchanged."""
    document = {"jobs": [_described(job) for job in jobs], "updated_at": now.isoformat()}
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


def _described(job: Job) -> dict[str, Any]:
    spec, options, last = job.spec, job.spec.options, job.last_run
    is_once = isinstance(job.schedule, Once)
    return {
        "id": job.id,
        "name": spec.name,
        "prompt": spec.prompt,
        "skills": list(options.skills),
        "model": options.model or None,
        "provider": None,
        "base_url": None,
        "script": options.script or None,
        "no_agent": options.script_only,
        "context_from": list(options.context_job_ids),
        "schedule": _schedule(job.schedule) | {"display": spec.schedule},
        "repeat": {"times": 1 if is_once else options.max_runs or None, "completed": job.run_count},
        "enabled": job.state is JobState.SCHEDULED,
        "state": job.state.lower(),
        "created_at": job.created_at.isoformat(),
        "next_run_at": job.next_run_at and job.next_run_at.isoformat(),
        "last_run_at": last and last.scheduled_for.isoformat(),
        "last_status": last and ("ok" if last.state is RunState.SUCCEEDED else "error"),
        "last_error": last and (last.error or None),
        "last_delivery_error": last and (last.delivery_error or None),
        "deliver": _deliver(spec),
        "origin": spec.origin
        and {key: value or None for key, value in to_builtins(spec.origin).items()},
        "enabled_toolsets": list(options.toolsets) or None,
        "workdir": options.workdir or None,
        "options": _own(job),
    }


def _schedule(schedule: Schedule) -> dict[str, Any]:
    match schedule:
        case Once(at):
            return {"kind": "once", "run_at": at.isoformat()}
        case Interval(every):
            seconds = every // timedelta(seconds=1)
            return {"kind": "interval", "minutes": seconds / 60 if seconds % 60 else seconds // 60}
        case Cron(expression):
            return {"kind": "cron", "expr": expression}


def _own(job: Job) -> dict[str, Any]:
    """Return the non-default fields for which the file format has no key."""
    asked: dict[str, Any] = to_builtins(job.spec.options)
    found = {key: value for key, value in asked.items() if key not in _ELSEWHERE}
    if isinstance(job.schedule, Once) and job.spec.options.max_runs:
        found["max_runs"] = job.spec.options.max_runs
    if isinstance(job.schedule, Interval):
        found["anchor_at"] = job.schedule.anchor.isoformat()
    if job.spec.options.script:
        found["script_is_text"] = True
    return found | {name: value for name in OWN if (value := to_builtins(getattr(job.spec, name)))}


def _deliver(spec: JobSpec) -> str:
    if not spec.options.deliver_to:
        return "origin" if spec.origin else "local"
    return ",".join(spec.options.deliver_to)
