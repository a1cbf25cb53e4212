"""How the curator stands, what came of its runs, and what it asks of the libraries of skills."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from scheduler_service.config import CuratorConfig

MERGED = "merged"
TRANSITIONS = frozenset({"active", "stale", "archived"})


class Curation(Struct, frozen=True):
    """How curation stands in a profile's home."""

    profile: str
    is_paused: bool = False
    last_run_time: datetime | None = None
    run_count: int = 0
    last_summary: str = ""
    last_report_path: str = ""
    idle_since: datetime | None = None
    """When somebody last talked to the agent; None is never."""
    is_busy: bool = False
    backup_ids: tuple[str, ...] = ()
    epoch: int = 0
    """The highest of the runs that have changed the library."""

    def next_run_at(self, config: CuratorConfig) -> datetime | None:
        """When it may run by itself at the earliest, if nobody talks to the agent until then."""
        if not config.enabled or self.is_paused or self.last_run_time is None:
            return None
        try:
            earliest = self.last_run_time + timedelta(hours=config.interval_hours)
        except OverflowError:
            # The time stands in a file that anybody may write: it is after the last that there is.
            return None
        if self.idle_since is not None:
            earliest = max(earliest, self.idle_since + timedelta(hours=config.min_idle_hours))
        return earliest


class Change(Struct, frozen=True, omit_defaults=True):
    """Something that was done to a skill, or was not."""

    kind: str
    name: str
    into: str = ""
    reason: str = ""


class Report(Struct, frozen=True, omit_defaults=True):
    """What came of a run, or of a roll-back."""

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
        """The skills that are part of others now, and of which."""
        merges = [each for each in self.changes if each.kind == MERGED and not self.dry_run]
        return {each.name: each.into for each in merges}
