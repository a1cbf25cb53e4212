"""Works out what a library is without the curator's changes since a backup, and with all others.

A skill that anybody has changed since the curator did, or that came since, stays as it is.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from agent_service.curation.backups import Backup
from agent_service.curation.changes import Done, Draft, Kind, digest
from agent_service.curation.restoring import folder_of, is_archived, restoring
from agent_service.skills.library import USAGE
from agent_service.skills.names import DOCUMENT
from agent_service.skills.protection import Protection
from agent_service.skills.usage import UsageFile

_RECORD = f"{USAGE}#"
"""What begins the names of records, which are undone one by one."""
CHANGED = "it was changed since, and stays as it is"
TAKEN = "there is another skill of that name now; this one stays in the archive"


def touched(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Mapping[str, str]:
    """What a change makes of each file and record that it changes, by its digest."""
    old, new = _parts(before), _parts(after)
    return {
        path: digest(new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    }


class Undoing:
    """Is shown a backup and those after it, in their order, and then the library."""

    def __init__(self) -> None:
        self._wanted: Mapping[str, bytes] | None = None
        """What the first backup holds."""
        self._known: dict[str, set[str]] = {}
        """As what the curator has found and left whatever it has changed."""
        self._foreign: set[str] = set()
        """Of that, what others have changed since."""

    def see(self, backup: Backup) -> None:
        """Take note of what was there before a change, and of what the change made of it."""
        if self._wanted is None:
            self._wanted = backup.library
        parts = _parts(backup.library)
        self._compare(parts)
        for path, left in backup.after.items():
            self._known[path] = {digest(parts.get(path)), left}

    def draft(self, now: Mapping[str, bytes]) -> Draft:
        """What is to be done to the library as it is now."""
        self._compare(_parts(now))
        return _Undone(self._wanted or {}, now, self._known, self._foreign).draft()

    def _compare(self, parts: Mapping[str, bytes]) -> None:
        for path, known in self._known.items():
            if digest(parts.get(path)) not in known:
                self._foreign.add(path)


class _Undone:
    """The library that is wanted, as it is put together."""

    def __init__(
        self,
        wanted: Mapping[str, bytes],
        now: Mapping[str, bytes],
        known: Mapping[str, set[str]],
        foreign: set[str],
    ) -> None:
        self._wanted, self._now = wanted, now
        self._known, self._foreign = known, foreign
        self._goal = dict(now)
        self._usage = _records(now)
        self._spare: set[str] = set()
        self._stay: set[str] = set()
        """Names of skills that stay as they are."""
        self._back: set[str] = set()
        """Names of skills that were away."""
        self._done: dict[str, Done] = {}
        self._refused: list[Done] = []

    def draft(self) -> Draft:
        """All of it."""
        for folder, paths in self._touched().items():
            if is_archived(folder):
                self._undo_archived(folder, paths)
            else:
                self._undo(folder, paths)
        self._undo_records()
        changes = restoring(self._now, self._goal, self._spare)
        done = tuple(self._done[name] for name in sorted(self._done))
        return Draft(tuple(changes), done, tuple(self._refused))

    def _touched(self) -> Mapping[str, list[str]]:
        """What the curator has changed, by the folders of skills."""
        everything = [*self._wanted, *self._now, *self._known]
        folders = {folder for path in everything if (folder := folder_of(path))}
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._known:
            if not path.startswith(_RECORD):
                above = [path[:at] for at, char in enumerate(path) if char == "/"]
                found[next((each for each in above if each in folders), path)].append(path)
        return found

    def _undo_archived(self, folder: str, paths: list[str]) -> None:
        """What others have put there meanwhile stays; what moves back leaves it."""
        if self._foreign.intersection(paths):
            return
        if f"{folder}/{DOCUMENT}" in self._wanted:
            self._give_back(paths)
        else:
            self._spare.add(folder)

    def _undo(self, folder: str, paths: list[str]) -> None:
        if all(self._wanted.get(path) == self._now.get(path) for path in paths):
            return
        name = folder.rpartition("/")[2]
        if problem := self._problem(folder, paths):
            self._stay.add(name)
            self._refused.append(Done(Kind.RESTORED, name, reason=problem))
            return
        stays = f"{folder}/{DOCUMENT}" in self._wanted
        self._done[name] = Done(Kind.RESTORED if stays else Kind.REMOVED, name)
        if f"{folder}/{DOCUMENT}" not in self._now:
            self._back.add(name)
        self._give_back(paths)

    def _problem(self, folder: str, paths: list[str]) -> str:
        """Why a skill stays as it is; empty where it does not."""
        name = folder.rpartition("/")[2]
        if self._foreign.intersection(paths):
            return CHANGED
        here = [path for path in self._now if path.startswith(f"{folder}/")]
        if not here:
            others = (each for path in self._now if (each := folder_of(path)))
            is_taken = any(
                each.rpartition("/")[2] == name for each in others if not is_archived(each)
            )
            return TAKEN if is_taken else ""
        if UsageFile(self._usage).of(name).pinned:
            return Protection.PINNED
        goes = f"{folder}/{DOCUMENT}" not in self._wanted
        has_others = any(path not in self._known and path not in self._wanted for path in here)
        return CHANGED if goes and has_others else ""

    def _give_back(self, paths: list[str]) -> None:
        for path in paths:
            if path in self._wanted:
                self._goal[path] = self._wanted[path]
            else:
                self._goal.pop(path, None)

    def _undo_records(self) -> None:
        wanted, before = _records(self._wanted), dict(self._usage)
        for path in self._known:
            name = path.removeprefix(_RECORD)
            is_ours = path not in self._foreign or name in self._back
            if not path.startswith(_RECORD) or name in self._stay or not is_ours:
                continue
            state = UsageFile(self._usage).of(name).state
            if name in wanted:
                self._usage[name] = wanted[name]
            else:
                self._usage.pop(name, None)
            if name not in self._done and UsageFile(self._usage).of(name).state is not state:
                self._done[name] = Done(Kind.RESTORED, name)
        if self._usage == wanted:
            self._give_back([USAGE])
        elif self._usage != before:
            self._goal[USAGE] = UsageFile(self._usage).encoded()


def _parts(library: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files of a library, and its records instead of their file."""
    parts = {path: data for path, data in library.items() if path != USAGE}
    for name, record in _records(library).items():
        parts[_RECORD + name] = json.dumps(record, sort_keys=True).encode()
    return parts


def _records(library: Mapping[str, bytes]) -> dict[str, Any]:
    return dict(UsageFile.parse(library.get(USAGE)).records)
