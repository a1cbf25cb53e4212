"""Scheduled jobs and runs of environments, and the interface to the scheduler."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from agent_service.records.messages import Target

LOCAL = "local"
"""The target that delivers nowhere: output is only stored."""


class JobChange(Struct, frozen=True):
    """The settings of a job; None leaves one unchanged or at its default."""

    prompt: str | None = None
    schedule: str | None = None
    name: str | None = None
    max_runs: int | None = None
    deliver_to: tuple[str, ...] | None = None
    """Targets, or `local` for nowhere."""
    skills: tuple[str, ...] | None = None
    model: str | None = None
    script: str | None = None
    script_mode: str | None = None
    """`only` if the script is the whole run, else `gate`."""
    context_job_ids: tuple[str, ...] | None = None
    toolsets: tuple[str, ...] | None = None
    workdir: str | None = None


class JobView(Struct, frozen=True, kw_only=True):
    """A stored job."""

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
    """Why its last run or delivery failed; else empty."""
    deliver_to: tuple[str, ...]
    run_count: int = 0
    wish: JobChange
    """Its settings; None for defaults."""
    changed_at: datetime
    home: Target | None = None
    """The chat that it was requested in; None if there is none."""
    pause_reason: str = ""
    """Why the scheduler paused it; empty if a person did."""
    notes: tuple[str, ...] = ()


class SchedulerRefused(Exception):
    """The scheduler has not done it; the message says why."""


class SchedulerAway(Exception):
    """The scheduler did not answer; it is not known whether it acted."""


class Jobs(Protocol):
    """A profile's jobs; methods may be repeated, and raise SchedulerRefused or SchedulerAway."""

    async def create(
        self,
        profile: str,
        job_id: str,
        wish: JobChange,
        origin: Mapping[str, str] | None,
        denied: Sequence[str],
    ) -> JobView:
        """Create a job, once for each id.

        `origin` is the chat that requested it, if any. Its runs may not use the `denied` slash
        commands, which its requester may not use.
        """
        ...

    async def list(self, profile: str) -> Sequence[JobView]:
        """Return the jobs, next due first."""
        ...

    async def get(self, profile: str, job_id: str) -> JobView: ...

    async def update(
        self, profile: str, job_id: str, wish: JobChange, request_id: str, denied: Sequence[str]
    ) -> JobView:
        """Change a job, once for each request id; `denied` as above, from now on."""
        ...

    async def take(self, profile: str, job_id: str, action: str) -> None:
        """`pause`, `resume` or `remove` a job."""
        ...

    async def run(self, profile: str, job_id: str, run_id: str) -> None:
        """Start a run now, once for each id."""
        ...


class RunOptions(Struct, frozen=True):
    """A run of an environment; 0 and empty mean the default."""

    environment: str
    groups: int = 0
    group_size: int = 1
    seed: int = 0
    model: str = ""
    max_model_calls: int = 0
    budget_micro_usd: int = 0


class Environments(Protocol):
    """A profile's environments, and their runs as JSON-ready values.

    Methods raise InvalidArgument, NotFound, SchedulerRefused or SchedulerAway.
    """

    async def list(self, profile: str) -> Mapping[str, Any]:
        """Return the number of tasks of each environment, or what is wrong with it."""
        ...

    async def start(self, profile: str, key: str, options: RunOptions) -> Mapping[str, Any]:
        """Start a run, once for each key."""
        ...

    async def get(self, profile: str, run: str) -> Mapping[str, Any]: ...

    async def stop(self, profile: str, run: str) -> Mapping[str, Any]: ...

    async def results(self, profile: str, run: str) -> Sequence[Mapping[str, Any]]:
        """Return the attempts that have ended, in the run's order."""
        ...
