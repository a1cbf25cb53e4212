"""Reports of curation runs in `logs/curator/<time>/`: one for people and one for programs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from agent_service.profiles.curation.changes import (
    STAMP,
    CurationResult,
    Kind,
    free_stamp,
    stamp_order,
)
from agent_service.profiles.skills.files import FileRefused, SkillFiles
from agent_service.profiles.skills.usage import moment
from services.validation import convert, json_object

FOLDER = "logs/curator"
REPORT, RUN = "REPORT.md", "run.json"
MAX_BYTES = 4 * 1024 * 1024
KEPT = 100

_RUN = re.compile(rf"({STAMP.pattern})/{re.escape(RUN)}")
_TITLES = {
    Kind.MERGED: "Merged",
    Kind.CREATED: "Made to take others in",
    Kind.PRUNED: "Put away, as the model found that they say nothing of their own",
    Kind.ARCHIVED: "Put away, as nobody used them",
    Kind.STALE: "Not used for a while",
    Kind.ACTIVE: "In use again",
    Kind.RESTORED: "Restored",
    Kind.REMOVED: "Taken away, as the curator had made them",
}


class Report(Struct, frozen=True):
    """The outcome of a run or roll-back."""

    run_id: str
    time: str
    """ISO 8601 in UTC."""
    changes: tuple[CurationResult, ...] = ()
    refusals: tuple[CurationResult, ...] = ()
    backup_id: str = ""
    path: str = ""
    """The path of REPORT.md in the profile's home; empty for a dry run."""
    plan_failure: str = ""
    dry_run: bool = False
    duration_s: float = 0.0
    epoch: int = 0
    restored_backup_id: str = ""
    """The backup that a roll-back restored; empty for a run."""

    @property
    def is_restore(self) -> bool:
        return bool(self.restored_backup_id)

    @property
    def summary(self) -> str:
        counts = [(kind, sum(done.kind is kind for done in self.changes)) for kind in _TITLES]
        told = ", ".join(f"{count} {_counted(kind)}" for kind, count in counts if count)
        told = f"skills: {told}" if told else "nothing to change"
        return f"{told}; nothing consolidated: {self.plan_failure}" if self.plan_failure else told

    @property
    def moment(self) -> datetime | None:
        return moment(self.time)

    def stored(self) -> Mapping[str, Any]:
        return {**msgspec.to_builtins(self), "summary": self.summary}


def report_of(stored: Mapping[str, Any]) -> Report:
    """Read a stored report; of another program's report, as much as is understood."""
    known = {name: stored[name] for name in Report.__struct_fields__ if name in stored}
    try:
        return convert({"run_id": "", "time": "", **known}, Report)
    except msgspec.ValidationError:
        return Report("", str(stored.get("time") or stored.get("started_at") or ""))


async def folder_for(files: SkillFiles, now: datetime) -> str:
    """Return a folder that no report has."""
    return free_stamp(now, {path.split("/")[0] for path in await files.tree()})


async def write(files: SkillFiles, report: Report) -> None:
    """Write both files; repeating it changes nothing."""
    folder = report.path.split("/")[-2]
    async with files.locked():
        await files.write(f"{folder}/{REPORT}", ("\n".join(_lines(report)) + "\n").encode())
        data = json.dumps(report.stored(), indent=2, ensure_ascii=False) + "\n"
        await files.write(f"{folder}/{RUN}", data.encode())
        for old in (await _folders(files))[KEPT:]:
            await files.remove(f"{old}/{REPORT}")
            await files.remove(f"{old}/{RUN}")


async def listed(files: SkillFiles, most: int) -> Sequence[Report]:
    """Return the reports, latest first."""
    return [await read(files, folder) for folder in (await _folders(files))[:most]]


async def read(files: SkillFiles, folder: str) -> Report:
    """Return the report in a folder; an empty one if it cannot be read."""
    try:
        stored = json_object(await files.read(f"{folder}/{RUN}", MAX_BYTES) or b"")
    except FileRefused:
        stored = None
    return msgspec.structs.replace(report_of(stored or {}), path=f"{FOLDER}/{folder}/{REPORT}")


async def _folders(files: SkillFiles) -> Sequence[str]:
    found = (_RUN.fullmatch(path) for path in await files.tree())
    return sorted((each[1] for each in found if each), key=stamp_order, reverse=True)


def _lines(report: Report) -> Iterator[str]:
    yield "# The curator's report"
    yield ""
    yield f"{report.time}: {report.summary}."
    yield ""
    if report.backup_id:
        yield f"Before it there was a backup: `hermes curator rollback {report.backup_id}`."
        yield "Archived skills are in `skills/.archive/`."
    for kind, title in _TITLES.items():
        found = [done for done in report.changes if done.kind is kind]
        if found:
            yield from ("", f"## {title}", "")
            yield from (_line(done) for done in found)
    if report.refusals:
        yield from ("", "## Not done", "")
        yield from (f"- {_counted(done.kind)}: {_line(done)[2:]}" for done in report.refusals)


def _counted(kind: Kind) -> str:
    return "active again" if kind is Kind.ACTIVE else kind.value


def _line(done: CurationResult) -> str:
    name = f"{done.name} → {done.into}" if done.into else done.name
    reason = " ".join(done.reason.split())
    return f"- `{name}`: {reason}" if reason else f"- `{name}`"
