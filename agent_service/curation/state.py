"""How curation stands in a profile: `.curator_state`, which other programs may have written."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

from msgspec import Struct

from agent_service.skills.files import SkillFiles
from agent_service.skills.usage import moment, timestamp
from services.errors import FailedPrecondition
from services.leases import EPOCHS

PATH = ".curator_state"
MAX_BYTES = 1024 * 1024


class CuratorState(Struct, frozen=True):
    """What the file says, and whatever else it has, which is kept."""

    kept: Mapping[str, Any] = {}

    @property
    def is_paused(self) -> bool:
        """Whether a person has paused it."""
        return self.kept.get("paused") is True

    @property
    def last_run_at(self) -> datetime | None:
        """When it last ran, or was first looked at; None is never."""
        return moment(self._text("last_run_at"))

    @property
    def run_count(self) -> int:
        """How often it has run."""
        count = self.kept.get("run_count")
        return count if type(count) is int and count >= 0 else 0

    @property
    def last_summary(self) -> str:
        """What the last run did; empty where there was none."""
        return self._text("last_run_summary")

    @property
    def last_report_path(self) -> str:
        """Where its report stands; empty where there was none."""
        return self._text("last_report_path")

    @property
    def is_told(self) -> bool:
        """Whether a person has been told of the last run, or there is nothing to tell."""
        return not self.last_summary or bool(self._text("last_run_summary_shown_at"))

    @property
    def last_change_id(self) -> str:
        """The run that has changed the library last; empty where none has."""
        return self._text("last_run_id")

    @property
    def epoch(self) -> int:
        """The highest of the runs that have changed the library; 0 where none has."""
        epoch = self.kept.get("last_run_epoch")
        return epoch if type(epoch) is int and 0 <= epoch < EPOCHS else 0

    def paused(self, *, is_paused: bool) -> "CuratorState":
        """When a person pauses or resumes it."""
        return self._with(paused=is_paused)

    def begun(self, now: datetime) -> "CuratorState":
        """When it is looked at, for the first time or not."""
        return self if self.last_run_at is not None else self._with(last_run_at=timestamp(now))

    def told(self, now: datetime) -> "CuratorState":
        """When a person has been told of the last run."""
        return self._with(last_run_summary_shown_at=timestamp(now))

    def changed(self, run_id: str, report: Mapping[str, Any]) -> "CuratorState":
        """After a run, or when a backup was restored."""
        if run_id == self.last_change_id:
            return self
        told: dict[str, Any] = {
            "last_run_id": run_id,
            "last_run_summary": report["summary"],
            # Whoever has a backup restored knows of it, and of nothing there is nothing to know.
            "last_run_summary_shown_at": None if report["changes"] else report["time"],
            "last_report_path": report["path"],
            "last_run_epoch": max(self.epoch, report.get("epoch", 0)),
        }
        if report.get("restored_backup_id"):
            return self._with(**{**told, "last_run_summary_shown_at": report["time"]})
        return self._with(
            **told,
            last_run_at=report["time"],
            last_run_duration_seconds=report["duration_s"],
            run_count=self.run_count + 1,
        )

    def _with(self, **values: Any) -> "CuratorState":
        return CuratorState({**self.kept, **values})

    def _text(self, name: str) -> str:
        value = self.kept.get(name)
        return value if isinstance(value, str) else ""


async def read(files: SkillFiles) -> CuratorState:
    """The state; FailedPrecondition where the file is none, as it then must not be replaced."""
    data = await files.read(PATH, MAX_BYTES)
    if data is None or not data.strip():
        return CuratorState()
    try:
        loaded = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        loaded = None
    if not isinstance(loaded, dict):
        raise FailedPrecondition(f"{PATH} of the skills is no JSON; move it away, or mend it")
    return CuratorState(cast("dict[str, Any]", loaded))


async def forget_first_look(files: SkillFiles) -> None:
    """Remove the file where it says no more than when the library was looked at first."""
    async with files.locked():
        with suppress(FailedPrecondition):
            if set((await read(files)).kept) == {"last_run_at"}:
                await files.remove(PATH)


async def write(files: SkillFiles, state: CuratorState) -> None:
    """Store it; the library has to be held."""
    data = json.dumps(state.kept, indent=2, ensure_ascii=False) + "\n"
    await files.write(PATH, data.encode())
