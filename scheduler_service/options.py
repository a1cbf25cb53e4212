"""How a job's runs are made: everything about a job that has a default."""

from enum import StrEnum

import msgspec
from msgspec import Struct

DEFAULT_MAX_MISSED = 10
DEFAULT_BACKOFF_S = 30


class Missed(StrEnum):
    """What becomes of due times that have passed."""

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
"""Targets that are no platform's."""


class Target(Struct, frozen=True):
    """A place that output goes to."""

    platform: str
    chat_id: str = ""
    thread_id: str = ""


class JobOptions(Struct, frozen=True, omit_defaults=True):
    """What a job may ask for its runs; 0 and empty are the defaults."""

    skills: tuple[str, ...] = ()
    model: str = ""
    script: str = ""
    script_only: bool = False
    """The script is the whole run, and not what decides whether the agent is asked."""
    context_job_ids: tuple[str, ...] = ()
    toolsets: tuple[str, ...] = ()
    workdir: str = ""
    deliver_to: tuple[Target, ...] = ()
    max_runs: int = 0
    missed: Missed = Missed.ONCE
    max_missed_runs: int = DEFAULT_MAX_MISSED
    missed_grace_s: int | None = None
    """None is what is configured."""
    overlap: Overlap = Overlap.FORBID
    jitter_s: int = 0
    timeout_s: int = 0
    max_retries: int = 0
    retry_backoff_s: int = DEFAULT_BACKOFF_S
    budget_micro_usd: int = 0
    budget_tokens: int = 0

    @property
    def has_budget(self) -> bool:
        """Whether its runs have a budget of their own."""
        return self.budget_micro_usd > 0 or self.budget_tokens > 0

    def has_budget_of(self, other: "JobOptions") -> bool:
        """Whether its runs have the same budget."""
        mine = (self.budget_micro_usd, self.budget_tokens)
        return mine == (other.budget_micro_usd, other.budget_tokens)


DEFAULTS = JobOptions()


def options_to_text(options: JobOptions) -> str | None:
    """How options are stored; None where all are the defaults."""
    return None if options == DEFAULTS else msgspec.json.encode(options).decode()


def options_of_text(text: str | None) -> JobOptions:
    """The options that are stored so."""
    return msgspec.json.decode(text, type=JobOptions) if text else DEFAULTS
