"""Which job a call of `cronjob` means: found once, and the same when the call is made again.

It is noted with the session, under the turn's fence, before anything is done with the job: what was
done may have taken its name away, or the job itself.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent_service.records.jobs import JobRefused, Jobs, JobView
from agent_service.records.messages import Target
from agent_service.tools.base import RetryWithHint, ToolContext, ToolFailed
from services.validation import convert

CALLS = "cronjob_calls"
KEPT = 16
"""Calls of a session of which it is kept; those of one message are made one after the other."""


class FoundJob(Struct, frozen=True):
    """The job that a call means."""

    id: str
    name: str
    changed_at: datetime
    """When it was last changed before the call."""
    is_again: bool = True
    """The call was made before, and may have come as far as to change it."""


async def look_up(jobs: Jobs, named: str, context: ToolContext) -> FoundJob:
    """The job that a call means by an id, or by the name that only one has."""
    kept: dict[str, Any] = await context.state.get(CALLS) or {}
    if (known := kept.get(context.key)) is not None:
        return convert(known, FoundJob)
    job = await _find(jobs, named, context)
    found = FoundJob(job.id, job.name, job.changed_at)
    newest = list({**kept, context.key: msgspec.to_builtins(found)}.items())[-KEPT:]
    await context.state.put(CALLS, dict(newest))
    return replace(found, is_again=False)


def shown_here(found: Sequence[JobView], context: ToolContext) -> Sequence[JobView]:
    """The jobs that may be told of: where others read along, those of that chat alone."""
    origin = context.caller.origin
    if origin.get("chat_type", "dm") == "dm":
        return found
    here = Target.of_origin(origin)
    return [job for job in found if _is_of(job, here)]


async def _find(jobs: Jobs, named: str, context: ToolContext) -> JobView:
    """The job of an id, or the only one of a name."""
    if not named.strip():
        raise RetryWithHint("Name the job in job_id. Use action list to see all jobs.")
    profile = context.caller.profile
    try:
        found = shown_here([await jobs.get(profile, named)], context)
    except JobRefused:  # there is none of the id, or it is a name that cannot be one
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
    """Whether a job was asked for in a chat, in whatever thread of it."""
    return (
        chat is not None
        and job.home is not None
        and (job.home.platform, job.home.chat_id) == (chat.platform, chat.chat_id)
    )
