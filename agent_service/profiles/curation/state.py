"""The state of a profile's curation: `.curator_state`, which other programs may have written."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from agent_service.profiles.curation.reports import Report
from agent_service.profiles.skills.files import SkillFiles
from agent_service.profiles.skills.usage import Count, moment, timestamp
from services.database.leases import EPOCHS
from services.errors import FailedPrecondition
from services.validation import json_object, lenient

PATH = ".curator_state"
MAX_BYTES = 1024 * 1024


class CuratorState(Struct, frozen=True):
    """The content of the file; times are ISO 8601 in UTC."""

    paused: bool = False
    last_run_at: str = ""
    """The last run, or the first look at the library; empty means never."""
    last_run_duration_seconds: float = 0.0
    run_count: Count = 0
    last_run_summary: str = ""
    last_run_summary_shown_at: str | None = None
    """When a person was told of the last run; None means not yet."""
    last_report_path: str = ""
    last_run_id: str = ""
    """The last run that changed the library; empty if none did."""
    last_run_epoch: Annotated[int, Meta(ge=0, lt=EPOCHS)] = 0
    """The highest epoch of the runs that changed the library; 0 if none did."""

    @property
    def last_run_time(self) -> datetime | None:
        """Return when the curator last ran or first looked; None means never."""
        return moment(self.last_run_at)

    @property
    def unreported(self) -> str:
        """Return the summary of the last run that no person was told of yet; may be empty."""
        return "" if self.last_run_summary_shown_at else self.last_run_summary

    def updated(self, now: datetime, *, is_paused: bool | None, begins: bool) -> "CuratorState":
        """Return the state after a person paused or resumed it, or the library was looked at."""
        return replace(
            self,
            paused=self.paused if is_paused is None else is_paused,
            last_run_at=timestamp(now) if begins and not self.last_run_time else self.last_run_at,
        )

    def with_reported(self, now: datetime, summary: str) -> "CuratorState":
        if self.unreported != summary:
            return self
        return replace(self, last_run_summary_shown_at=timestamp(now))

    def changed(self, report: Report) -> "CuratorState":
        if report.run_id == self.last_run_id:
            return self
        # A person who restores a backup knows of it, and a run without changes is no news.
        is_news = report.changes and not report.is_restore
        after = replace(
            self,
            last_run_id=report.run_id,
            last_run_summary=report.summary,
            last_run_summary_shown_at=None if is_news else report.time,
            last_report_path=report.path,
            last_run_epoch=max(self.last_run_epoch, report.epoch),
        )
        if report.is_restore:
            return after
        return replace(
            after,
            last_run_at=report.time,
            last_run_duration_seconds=report.duration_s,
            run_count=self.run_count + 1,
        )


async def read(files: SkillFiles) -> CuratorState:
    """Return the state; FailedPrecondition if the file is invalid and so must not be replaced."""
    return lenient(await _fields(files), CuratorState)


async def change(files: SkillFiles, changed: Callable[[CuratorState], CuratorState]) -> None:
    """Change the state and keep unknown fields of the file; the library must be locked."""
    fields = await _fields(files)
    before = lenient(fields, CuratorState)
    after = changed(before)
    if after != before:
        names = CuratorState.__struct_fields__
        other = [name for name in names if getattr(after, name) != getattr(before, name)]
        fields |= {name: getattr(after, name) for name in other}
        data = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
        await files.write(PATH, data.encode())


async def forget_first_look(files: SkillFiles) -> None:
    """Delete the file if it holds no more than the time of the first look."""
    async with files.locked():
        with suppress(FailedPrecondition):
            if set(await _fields(files)) == {"last_run_at"}:
                await files.remove(PATH)


async def _fields(files: SkillFiles) -> dict[str, Any]:
    data = await files.read(PATH, MAX_BYTES)
    loaded = json_object(data) if data and data.strip() else {}
    if loaded is None:
        raise FailedPrecondition(f"{PATH} of the skills is no JSON; move it away, or mend it")
    return loaded
