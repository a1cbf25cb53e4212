"""The jobs of a home that is taken: which can run here, and why the others cannot."""

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import grpc.aio
from msgspec import Struct

from hermes.common.v1.origin_pb2 import TRUST_OWNER, Origin
from hermes.scheduler.v1 import job_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli.failures import explain

JOBS = "cron/jobs.json"

_ELSEWHERE = {
    "script": "a script of its own",
    "no_agent": "a script in place of the agent",
    "skills": "skills that it loads",
    "context_from": "output of other jobs",
    "model": "a model of its own",
    "provider": "a provider of its own",
    "base_url": "an endpoint of its own",
    "enabled_toolsets": "toolsets of its own",
    "workdir": "a folder that it works in",
}
"""What a job may ask for that jobs have no place for here; without it, it would be another job."""
_LOCKS = ("gateway*.lock", "*.gateway.lock", "cron/*.lock", "cron/.*.lock")


class Created(Struct, frozen=True):
    """A job that runs here from now on."""

    job_id: str


class NotRun(Struct, frozen=True):
    """A job that stays in its file, and why."""

    job_id: str
    name: str
    why: str


def jobs_of(data: bytes, profile: str, time_zone: str) -> list[job_pb2.CreateJobRequest | NotRun]:
    """The jobs of a file, as lenient as a home's files are read."""
    try:
        loaded = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return [NotRun("", JOBS, "the file is no JSON")]
    listed = cast("dict[str, Any]", loaded).get("jobs") if isinstance(loaded, dict) else loaded
    if not isinstance(listed, list):
        return [NotRun("", JOBS, "the file holds no list of jobs")]
    return [_job(job, profile, time_zone) for job in cast("list[object]", listed)]


def held_by(root: Path) -> str:
    """The lock file of a program that runs a home's jobs now; empty where none does."""
    for pattern in _LOCKS:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and _is_held(path):
                return path.name
    return ""


async def create(
    scheduler: JobServiceStub | None, request: job_pb2.CreateJobRequest
) -> Created | NotRun:
    """Have a job run here, once; without a scheduler, as if."""
    if scheduler is not None:
        try:
            await scheduler.CreateJob(request)
        except grpc.aio.AioRpcError as error:
            return NotRun(request.job_id, request.name, explain(error))
    return Created(request.job_id)


def _job(given: object, profile: str, time_zone: str) -> job_pb2.CreateJobRequest | NotRun:
    job = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    job_id, name, prompt = _text(job, "id"), _text(job, "name"), _text(job, "prompt")
    if not job_id:
        return NotRun(job_id, name, "it has no id")
    if why := _obstacle(job, prompt):
        return NotRun(job_id, name, why)
    return job_pb2.CreateJobRequest(
        job_id=job_id,
        profile=profile,
        name=name,
        prompt=prompt,
        schedule=_schedule(job),
        time_zone=time_zone,
        origin=_origin(job),
    )


def _obstacle(job: Mapping[str, Any], prompt: str) -> str:
    if job.get("enabled") is False or job.get("state", "scheduled") != "scheduled":
        return "it is paused, or has ended"
    asked = [meaning for name, meaning in _ELSEWHERE.items() if job.get(name)]
    if asked:
        return f"it asks for {', '.join(asked)}"
    if not prompt:
        return "it has no prompt"
    if not _schedule(job):
        return "its schedule is not understood"
    if _kind(job) != "once" and isinstance(_part(job, "repeat").get("times"), int):
        return "it ends after some runs"
    if _text(job, "deliver") not in ("", "origin", "local"):
        return f"its output goes to {_text(job, 'deliver')}"
    return ""


def _schedule(job: Mapping[str, Any]) -> str:
    """The schedule as somebody would write it; empty where it is not understood."""
    schedule = _part(job, "schedule")
    minutes = schedule.get("minutes")
    match _kind(job):
        case "once":
            return _text(schedule, "run_at")
        case "interval" if isinstance(minutes, int) and minutes > 0:
            return f"every {minutes} minutes"
        case "cron":
            return _text(schedule, "expr")
        case _:
            return ""


def _kind(job: Mapping[str, Any]) -> str:
    return _text(_part(job, "schedule"), "kind")


def _origin(job: Mapping[str, Any]) -> Origin | None:
    origin = _part(job, "origin")
    platform, chat = _text(origin, "platform"), _text(origin, "chat_id")
    if _text(job, "deliver") == "local" or not (platform and chat):
        return None
    thread = _text(origin, "thread_id")
    return Origin(platform=platform, chat_id=chat, thread_id=thread, trust=TRUST_OWNER)


def _part(job: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = job.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _text(part: Mapping[str, Any], name: str) -> str:
    found = part.get(name)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)  # as some platforms' chats are written
    return found if isinstance(found, str) else ""


def _is_held(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
