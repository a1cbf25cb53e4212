"""Scheduled jobs as the agent asks for them, and the seam to who runs them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from agent_service.records.messages import Target

LOCAL = "local"
"""The target that is nowhere: output is only kept."""


class JobChange(Struct, frozen=True):
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


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it is."""

    id: str
    name: str = ""
    prompt: str = ""
    schedule: str = ""
    time_zone: str = ""
    state: str = "scheduled"
    """`scheduled`, `completed` or `paused`."""
    next_run_time: datetime | None = None
    last_run_time: datetime | None = None
    error: str = ""
    """Why its last run failed, or could not be delivered; empty where it did not."""
    deliver_to: tuple[str, ...]
    run_count: int = 0
    wish: JobChange
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


class SchedulerAway(Exception):
    """The scheduler did not answer, so it is not known whether it has done anything."""


class Jobs(Protocol):
    """A profile's jobs; JobRefused and SchedulerAway from every method, each of which may be
    repeated.
    """

    async def create(
        self,
        profile: str,
        job_id: str,
        wish: JobChange,
        origin: Mapping[str, str] | None,
        denied: Sequence[str],
    ) -> JobView:
        """Store a job; the same id again stores nothing more.

        `origin` is the chat that it is asked for in; None where that is none. `denied` are slash
        commands that are denied to whoever asks for it, and so to its runs.
        """
        ...

    async def list(self, profile: str) -> Sequence[JobView]:
        """The jobs, the one due next first."""
        ...

    async def get(self, profile: str, job_id: str) -> JobView:
        """A job."""
        ...

    async def update(
        self, profile: str, job_id: str, wish: JobChange, request_id: str, denied: Sequence[str]
    ) -> JobView:
        """Change a job, once for each id of a request; `denied` as above, from now on."""
        ...

    async def take(self, profile: str, job_id: str, action: str) -> None:
        """`pause`, `resume` or `remove` a job."""
        ...

    async def run(self, profile: str, job_id: str, run_id: str) -> None:
        """Begin a run now, once for each id."""
        ...
