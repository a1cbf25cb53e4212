"""The curator's records, when it is due, and what it asks of the libraries of skills."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from scheduler_service.transitions import Ages, SkillState, SkillUse, Transition

CHANNEL = "curator"
"""Where a new run is hinted at."""


class Settings(Struct, frozen=True):
    """When it runs by itself, and how old skills become."""

    is_enabled: bool = True
    interval: timedelta = timedelta(hours=168)
    min_idle: timedelta = timedelta(hours=2)
    ages: Ages = Ages()
    first_check_s: float = 10.0
    """After the start, until profiles are looked at."""
    check_s: float = 60.0
    """How often they are."""


class Curation(Struct, frozen=True):
    """How curation stands in a profile's home."""

    profile: str
    is_paused: bool
    last_run_at: datetime | None
    run_count: int
    last_summary: str
    last_report_path: str
    idle_since: datetime | None
    """When somebody last talked to the agent; None is never."""
    is_busy: bool
    backup_ids: tuple[str, ...] = ()
    epoch: int = 0
    """The highest of the runs that have changed the library, whatever scheduler made them."""

    def next_run_at(self, settings: Settings) -> datetime | None:
        """When it may run by itself at the earliest, if nobody talks to the agent until then."""
        if not settings.is_enabled or self.is_paused or self.last_run_at is None:
            return None
        try:
            earliest = self.last_run_at + settings.interval
        except OverflowError:
            # The time stands in a file that anybody may write: it is after the last that there is.
            return None
        if self.idle_since is not None:
            earliest = max(earliest, self.idle_since + settings.min_idle)
        return earliest

    def is_due(self, settings: Settings, now: datetime) -> bool:
        """Whether it is to run now."""
        earliest = self.next_run_at(settings)
        return earliest is not None and earliest <= now and not self.is_busy


class Done(Struct, frozen=True):
    """Something that was done to a skill, or was not."""

    kind: str
    name: str
    into: str = ""
    reason: str = ""


MERGED = "merged"
TRANSITIONS = frozenset(state.value for state in SkillState)


class Report(Struct, frozen=True):
    """What came of a run."""

    run_id: str
    time: datetime | None
    summary: str
    path: str = ""
    backup_id: str = ""
    dry_run: bool = False
    changes: tuple[Done, ...] = ()
    refusals: tuple[Done, ...] = ()
    plan_failure: str = ""

    @property
    def merged(self) -> Mapping[str, str]:
        """The skills that are part of others now, and of which."""
        return {done.name: done.into for done in self.changes if done.kind == MERGED}


class RunState(StrEnum):
    """Where a run is in its life."""

    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class CuratorRun(Struct, frozen=True):
    """A run of the curator."""

    id: str
    profile: str
    dry_run: bool
    state: RunState
    created_at: datetime
    finished_at: datetime | None = None
    plan: str | None = None
    """What the model has answered; None where it has not been asked."""
    plan_failure: str = ""
    report: Report | None = None
    error: str = ""


class Order(Struct, frozen=True):
    """What is to be done to a library."""

    run: CuratorRun
    epoch: int
    """Of the lease of the run."""
    transitions: Sequence[Transition]
    last_active_at: Mapping[str, datetime | None]
    """Of the skills of transitions, when they were last used as far as is known."""
    of_jobs: Collection[str]


class Libraries(Protocol):
    """The libraries of all profiles. Raises Unavailable, and what says that it is in vain."""

    async def curations(self, profile: str = "") -> Sequence[Curation]:
        """How curation stands in one profile, or in all."""
        ...

    async def begin(self, profile: str) -> None:
        """Record that it was looked at for the first time."""
        ...

    async def skills(self, profile: str) -> Sequence[SkillUse]:
        """The skills with their use."""
        ...

    async def plan(self, profile: str, left_out: Collection[str], jobs: Collection[str]) -> str:
        """What a model wants consolidated; empty where there is nothing to ask."""
        ...

    async def apply(self, order: Order) -> Report:
        """Do what the rules allow, once for each run; StaleEpoch where a later owner has."""
        ...

    def held(self, profile: str) -> AbstractAsyncContextManager[None]:
        """Keep others from a library; SkillsBusy where somebody is at work on it."""
        ...
