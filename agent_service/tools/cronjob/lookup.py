"""Finds the job that a `cronjob` call means, and finds the same one if the call is repeated.

The result is stored with the session before the job changes: the change may rename or delete it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.jobs import Jobs, JobView, SchedulerRefused
from agent_service.records.messages import Target
from agent_service.tools.base import RetryWithHint, ToolContext, ToolFailed
from services.validation import convert

CALLS = "cronjob_calls"
KEPT = 16
"""Calls of a session whose jobs are kept; the calls of one message run one after the other."""


class FoundJob(Struct, frozen=True):
    """The job that a call means."""

    id: str
    name: str
    changed_at: datetime
    is_again: bool = True
    """The call was made before and may already have changed the job."""


async def look_up(jobs: Jobs, named: str, context: ToolContext) -> FoundJob:
    """The job with an id, or with a name that only one job has."""
    kept: dict[str, Any] = await context.state.get(CALLS) or {}
    if (known := kept.get(context.key)) is not None:
        return convert(known, FoundJob)
    job = await _find(jobs, named, context)
    found = FoundJob(job.id, job.name, job.changed_at)
    newest = list({**kept, context.key: msgspec.to_builtins(found)}.items())[-KEPT:]
    await context.state.put(CALLS, dict(newest))
    return replace(found, is_again=False)


def shown_here(found: Sequence[JobView], context: ToolContext) -> Sequence[JobView]:
    """The jobs that may be shown: in a shared chat only that chat's."""
    origin = context.caller.origin
    if origin.get("chat_type", "dm") == "dm":
        return found
    here = Target.of_origin(origin)
    return [job for job in found if _is_of(job, here)]


async def _find(jobs: Jobs, named: str, context: ToolContext) -> JobView:
    if not named.strip():
        raise RetryWithHint("Name the job in job_id. Use action list to see all jobs.")
    profile = context.caller.profile
    try:
        found = shown_here([await jobs.get(profile, named)], context)
    except SchedulerRefused:  # no such id, or a name that is not a valid id
        found = ()
    if found:
        return found[0]
    known = shown_here(await jobs.list(profile), context)
    found = [job for job in known if job.name.casefold() == named.strip().casefold()]
    if len(found) == 1:
        return found[0]
    has = ", ".join(f"{job.id} “{job.name}”" for job in found or known[:20]) or "none"
    raise ToolFailed(f"{named!r} does not name exactly one job. Candidates: {has}.")


def _is_of(job: JobView, chat: Target | None) -> bool:
    """Whether a job was requested in a chat, in any of its threads."""
    return (
        chat is not None
        and job.home is not None
        and (job.home.platform, job.home.chat_id) == (chat.platform, chat.chat_id)
    )
