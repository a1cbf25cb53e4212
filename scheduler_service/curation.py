"""The state of the curator and the reports of its runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from scheduler_service.config import CuratorConfig

MERGED = "merged"
TRANSITIONS = frozenset({"active", "stale", "archived"})


class Curation(Struct, frozen=True):
    """The curation state of a profile."""

    profile: str
    is_paused: bool = False
    last_run_time: datetime | None = None
    run_count: int = 0
    last_summary: str = ""
    last_report_path: str = ""
    idle_since: datetime | None = None
    """When somebody last talked to the agent; None: never."""
    is_busy: bool = False
    backup_ids: tuple[str, ...] = ()
    epoch: int = 0
    """The highest epoch of a run that changed the library."""

    def next_run_at(self, config: CuratorConfig) -> datetime | None:
        """Return the earliest automatic run, provided that nobody talks to the agent until then."""
        if not config.enabled or self.is_paused or self.last_run_time is None:
            return None
        try:
            earliest = self.last_run_time + timedelta(hours=config.interval_hours)
        except OverflowError:
            # Anybody may edit the file with this time, so the sum can overflow.
            return None
        if self.idle_since is not None:
            earliest = max(earliest, self.idle_since + timedelta(hours=config.min_idle_hours))
        return earliest


class Change(Struct, frozen=True, omit_defaults=True):
    """A change to a skill, or the reason why there was none."""

    kind: str
    name: str
    into: str = ""
    reason: str = ""


class Report(Struct, frozen=True, omit_defaults=True):
    """The report of a run or a rollback."""

    run_id: str = ""
    time: datetime | None = None
    summary: str = ""
    path: str = ""
    backup_id: str = ""
    dry_run: bool = False
    changes: tuple[Change, ...] = ()
    refusals: tuple[Change, ...] = ()
    plan_failure: str = ""
    restored_backup_id: str = ""

    @property
    def merged(self) -> Mapping[str, str]:
        """Map each merged skill to the skill that it is now part of."""
        merges = [each for each in self.changes if each.kind == MERGED and not self.dry_run]
        return {each.name: each.into for each in merges}
