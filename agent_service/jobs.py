"""Scheduled jobs as the agent asks for them, and the seam to who runs them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from agent_service.messaging import Target

LOCAL = "local"
"""The target that is nowhere: output is only kept."""


class Wish(Struct, frozen=True):
    """What a job is to be; None leaves it as it is, or at its default."""

    prompt: str | None = None
    schedule: str | None = None
    name: str | None = None
    max_runs: int | None = None
    deliver_to: tuple[Target | str, ...] | None = None
    """Chats, platforms whose home channels are meant, or the words `origin` and `local`."""
    skills: tuple[str, ...] | None = None
    model: str | None = None
    script: str | None = None
    script_mode: str | None = None
    """`only` where the script is the whole run, else `gate`."""
    context_job_ids: tuple[str, ...] | None = None
    toolsets: tuple[str, ...] | None = None
    workdir: str | None = None


class NewJob(Struct, frozen=True):
    """A job to store; the same id again stores nothing more."""

    id: str
    profile: str
    origin: Mapping[str, str] | None
    """The chat that it is asked for in; None where that is none."""
    wish: Wish
    denied: Sequence[str] = ()
    """Slash commands that are denied to whoever asks for it, and so to its runs."""


class Change(Struct, frozen=True):
    """What is to change of a job, once for each id."""

    id: str
    wish: Wish
    denied: Sequence[str] = ()
    """Slash commands that are denied to whoever asks for it, and from now on to the job's runs."""


class Step(StrEnum):
    """What can be done with a job as a whole."""

    PAUSE = "pause"
    RESUME = "resume"
    REMOVE = "remove"


class JobState(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    COMPLETED = "completed"
    PAUSED = "paused"


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it is."""

    id: str
    name: str = ""
    prompt: str = ""
    schedule: str = ""
    time_zone: str = ""
    state: JobState = JobState.SCHEDULED
    next_run_time: datetime | None = None
    last_run_time: datetime | None = None
    error: str = ""
    """Why its last run failed, or could not be delivered; empty where it did not."""
    deliver_to: tuple[str, ...]
    run_count: int = 0
    wish: Wish
    """What it was told of its runs; what has its default is None."""
    changed_at: datetime
    """When it was last changed, or made."""
    home: Target | None = None
    """The chat that it was asked for in; None where that is none."""
    pause_reason: str = ""
    """Why it is paused where nobody has asked for that; empty where somebody has."""
    notes: tuple[str, ...] = ()
    """What whoever has just made or changed it is to know of it."""


class JobRefused(Exception):
    """The job was not taken or changed; the message says why."""


class NoSuchJob(JobRefused):
    """There is no job of this id in the profile."""


class SchedulerAway(Exception):
    """The scheduler did not answer, so it is not known whether it has done anything."""


class Jobs(Protocol):
    """A profile's jobs; JobRefused and SchedulerAway from every method, each of which may be
    repeated.
    """

    async def create(self, new: NewJob) -> JobView:
        """Store a job."""
        ...

    async def list(self, profile: str) -> Sequence[JobView]:
        """The jobs, the one due next first."""
        ...

    async def get(self, profile: str, job_id: str) -> JobView:
        """A job."""
        ...

    async def update(self, profile: str, job_id: str, change: Change) -> JobView:
        """Change a job."""
        ...

    async def take(self, profile: str, job_id: str, step: Step) -> None:
        """Pause, resume or remove a job."""
        ...

    async def run(self, profile: str, job_id: str, run_id: str) -> None:
        """Begin a run now, once for each id."""
        ...
