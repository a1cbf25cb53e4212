"""Works out what a library is without the curator's changes since a backup, and with all others.

The change of each skill is undone where all of it still is as the curator left it. A skill that
anybody has changed since, or that has come since, stays as it is.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_service.profiles.curation.backups import Backup
from agent_service.profiles.curation.changes import CurationResult, Draft, Kind
from agent_service.profiles.skills.journal import Change, Move, Remove, Write, applied, digest
from agent_service.profiles.skills.library import USAGE, Protection
from agent_service.profiles.skills.names import ARCHIVE, DOCUMENT
from agent_service.profiles.skills.usage import UsageFile

_STATE = f"{USAGE}#"
"""Begins what stands for the state of a skill in its record of use."""
_STATE_FIELDS = ("state", "archived_at", "archived_from")
CHANGED = "it was changed since, and stays as it is"
TAKEN = "there is another skill of that name now; this one stays in the archive"

_STAMP = re.compile(r"-\d{14}(?:-\d+)?$")
"""What may be behind a skill's name in the archive."""


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Mapping[str, str]:
    """What a change makes of each file of a skill that it changes, by its digest, and of states."""
    files = {
        path: digest(after.get(path))
        for path in sorted({*before, *after} - {USAGE})
        if before.get(path) != after.get(path)
    }
    old, new = UsageFile.parse(before.get(USAGE)), UsageFile.parse(after.get(USAGE))
    states = {name: new.of(name).state for name in new.records}
    return files | {
        _STATE + name: state.value for name, state in states.items() if old.of(name).state != state
    }


class Rollback:
    """Undoes changes one after the other, the latest first."""

    def __init__(self, now: Mapping[str, bytes]) -> None:
        self._now = now
        self._goal = dict(now)
        self._records = dict(UsageFile.parse(now.get(USAGE)).records)
        self._undone: defaultdict[str, set[str]] = defaultdict(set)
        """The files of skills that were given back, by name."""
        self._folders: dict[str, str] = {}
        """The folders of those, by name."""
        self._away: dict[str, str] = {}
        """The folders of the archive that they were in, by name."""
        self._refused: dict[str, CurationResult] = {}
        self._states: set[str] = set()
        """The skills whose state was given back."""

    def undo(self, backup: Backup) -> None:
        """Undo the change before which a backup was made."""
        before = UsageFile.parse(backup.library.get(USAGE)).records
        for folder, paths in self._by_folder(backup):
            name = folder.rpartition("/")[2]
            if folder.startswith(f"{ARCHIVE}/"):
                name = _STAMP.sub("", name)
                if name not in self._refused and self._is_ours(paths, backup):
                    self._give_back(paths, backup)
                    self._away[name] = folder
            elif problem := self._problem(folder, paths, backup):
                self._refused[name] = CurationResult(Kind.RESTORED, name, reason=problem)
            else:
                self._give_back(paths, backup)
                self._undone[name].update(paths)
                self._folders[name] = folder
                if name not in before:
                    self._records.pop(name, None)
        for path, state in backup.after.items():
            name = path.removeprefix(_STATE)
            if path != name and name in before and name not in self._refused:
                self._give_state_back(name, state, before)

    def draft(self) -> Draft:
        """What is to be done to the library."""
        if self._records != UsageFile.parse(self._now.get(USAGE)).records:
            self._goal[USAGE] = UsageFile(self._records).encoded()
        # What is moved keeps its permissions, and files that no backup holds.
        moves = [
            Move(self._away[name], folder)
            for name, folder in self._folders.items()
            if name in self._away and not any(path.startswith(f"{folder}/") for path in self._now)
        ]
        now, goal = applied(self._now, moves), self._goal
        changes: list[Change] = [
            *moves,
            *(
                Write(path, digest(now.get(path)), data)
                for path, data in goal.items()
                if now.get(path) != data
            ),
        ]
        # The deepest first, so that no folder is left over.
        gone = sorted(set(now) - set(goal), key=lambda path: (-path.count("/"), path))
        changes += [Remove(path, digest(now[path])) for path in gone]
        done = tuple(
            self._done(name)
            for name in sorted({*self._undone, *self._states})
            if self._differs(name)
        )
        return Draft(tuple(changes), done, tuple(self._refused.values()))

    def _differs(self, name: str) -> bool:
        before = UsageFile.parse(self._now.get(USAGE)).of(name).state
        is_other = name in self._states and UsageFile(self._records).of(name).state != before
        return is_other or any(self._goal.get(it) != self._now.get(it) for it in self._undone[name])

    def _done(self, name: str) -> CurationResult:
        is_left = any(path in self._goal for path in self._undone[name] if _is_document(path))
        was_there = any(path in self._now for path in self._undone[name] if _is_document(path))
        return CurationResult(Kind.REMOVED if was_there and not is_left else Kind.RESTORED, name)

    def _by_folder(self, backup: Backup) -> Iterator[tuple[str, Sequence[str]]]:
        """The files that were changed, by the folders of skills, and then of archived ones."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        paths = (path for path in backup.after if not path.startswith(_STATE))
        for path in sorted(paths, key=lambda path: (path.startswith(ARCHIVE), path)):
            top, _, rest = path.partition("/")
            is_skill = any(f"{top}/{DOCUMENT}" in each for each in (backup.library, self._goal))
            folder = top if is_skill else f"{top}/{rest.partition('/')[0]}"
            found[folder].append(path)
        yield from found.items()

    def _problem(self, folder: str, paths: Sequence[str], backup: Backup) -> str:
        """Why a skill stays as it is; empty where it does not."""
        name = folder.rpartition("/")[2]
        here = [path for path in self._goal if path.startswith(f"{folder}/")]
        if not here:
            others = (path for path in self._goal if not path.startswith(ARCHIVE))
            taken = any(f"/{path}".endswith(f"/{name}/{DOCUMENT}") for path in others)
            return TAKEN if taken else ""
        if not self._is_ours(paths, backup):
            return CHANGED
        if UsageFile(self._records).of(name).pinned:
            return Protection.PINNED
        goes = f"{folder}/{DOCUMENT}" not in backup.library
        return CHANGED if goes and set(here) - set(paths) else ""

    def _is_ours(self, paths: Sequence[str], backup: Backup) -> bool:
        """Whether all is as the change left it, or found it: it may never have been made."""
        return all(
            digest(self._goal.get(path)) in (backup.after[path], digest(backup.library.get(path)))
            for path in paths
        )

    def _give_state_back(self, name: str, left: str, before: Mapping[str, Any]) -> None:
        """Undo what a change has made of a state; what was counted of use since stays."""
        now, then = self._records.get(name), before[name]
        if not isinstance(now, dict) or not isinstance(then, dict):
            return
        if UsageFile(self._records).of(name).state != left:
            return
        fields = dict(cast("Mapping[str, Any]", now))
        for key in _STATE_FIELDS:
            fields.pop(key, None)
            fields |= {key: then[key]} if key in then else {}
        self._records[name] = fields
        self._states.add(name)

    def _give_back(self, paths: Sequence[str], backup: Backup) -> None:
        for path in paths:
            self._goal.pop(path, None)
            self._goal |= {path: backup.library[path]} if path in backup.library else {}


def _is_document(path: str) -> bool:
    return path.endswith(f"/{DOCUMENT}")
