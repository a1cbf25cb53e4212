"""How a job's runs are made: everything about a job that has a default."""

import hashlib
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct


class MissedRunPolicy(StrEnum):
    """What happens to due times that have passed."""

    ONCE = "once"
    """The latest gets the run that makes up for all, unless it is too long ago."""
    SKIP = "skip"
    """None is made up for."""
    ALL = "all"
    """Each gets its run, up to a number."""


class Overlap(StrEnum):
    """What happens to a job that is due while a run of it is under way."""

    FORBID = "forbid"
    """It waits."""
    ALLOW = "allow"
    """It runs beside it."""
    REPLACE = "replace"
    """It takes its place."""


ORIGIN, LOCAL = "origin", "local"
"""Targets: the chat that a job was asked for in, and nowhere. The gateway knows all others."""

_Name = Annotated[str, Meta(max_length=128, pattern=r"\A[^\0]*[^\0\s][^\0]*\Z")]
_Limit = Annotated[int, Meta(ge=0, le=10**15)]


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """What a job may ask for its runs, as its message has it; empty is the default."""

    skills: Annotated[tuple[_Name, ...], Meta(max_length=20)] = ()
    model: Annotated[str, Meta(max_length=200)] = ""
    script: str = ""
    script_mode: Literal["", "gate", "only"] = ""
    context_job_ids: Annotated[tuple[_Name, ...], Meta(max_length=10)] = ()
    toolsets: Annotated[tuple[_Name, ...], Meta(max_length=50)] = ()
    workdir: Annotated[str, Meta(max_length=4096)] = ""
    deliver_to: Annotated[tuple[str, ...], Meta(max_length=10)] = ()
    max_runs: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    missed_run_policy: MissedRunPolicy = MissedRunPolicy.ONCE
    max_missed_runs: Annotated[int, Meta(ge=0, le=100)] = 10
    missed_run_grace: timedelta | None = None
    """None is what is configured."""
    overlap_policy: Overlap = Overlap.FORBID
    jitter: timedelta | None = None
    timeout: timedelta | None = None
    max_retries: Annotated[int, Meta(ge=0, le=10)] = 0
    retry_backoff: timedelta = timedelta(seconds=30)
    budget_micro_usd: _Limit = 0
    budget_tokens: _Limit = 0

    @property
    def script_only(self) -> bool:
        """Whether the script is the whole run, and not what decides whether the agent is asked."""
        return bool(self.script.strip()) and self.script_mode == "only"

    @property
    def budget(self) -> tuple[int, int]:
        """Micro-dollars and tokens that its runs may cost and use; 0 is without a limit."""
        return self.budget_micro_usd, self.budget_tokens


_LONGEST_WAIT = timedelta(days=1)


def first_start(job_id: str, scheduled_for: datetime, options: JobOptions) -> datetime | None:
    """Before which the first turn does not start; None is at once."""
    if not options.jitter:
        return None
    # The same whoever asks, and spread evenly over jobs that are due together.
    digest = hashlib.sha256(f"{job_id} {scheduled_for.isoformat()}".encode()).digest()
    return scheduled_for + options.jitter * (int.from_bytes(digest[:8]) / 2**64)


def retry_at(attempt: int, now: datetime, options: JobOptions) -> datetime | None:
    """When a turn is tried again of which so many attempts have failed; None is never."""
    if attempt > options.max_retries:
        return None
    return now + min(options.retry_backoff * 2 ** (attempt - 1), _LONGEST_WAIT)
