"""Works out a library without the curator's changes since a backup, keeping all other changes.

A skill's change is undone only if the skill is still as the curator left it. Skills that were
changed or added since stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_service.profiles.curation.backups import Backup
from agent_service.profiles.curation.changes import CurationResult, Draft, Kind
from agent_service.profiles.skills.journal import Change, Move, Remove, Write, applied, digest
from agent_service.profiles.skills.library import USAGE, Protection
from agent_service.profiles.skills.names import ARCHIVE, DOCUMENT
from agent_service.profiles.skills.usage import UsageFile
from services.validation import object_of

_STATE_FIELDS = ("state", "archived_at", "archived_from")
CHANGED = "it was changed since, and stays as it is"
TAKEN = "there is another skill of that name now; this one stays in the archive"

_STAMP = re.compile(r"-\d{14}(?:-\d+)?$")
"""The suffix that a skill's name may get in the archive."""


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Mapping[str, str]:
    """Return the digest of each file that a change alters."""
    return {
        path: digest(after.get(path))
        for path in sorted({*before, *after} - {USAGE})
        if before.get(path) != after.get(path)
    }


class Rollback:
    """Undoes changes one after another, latest first."""

    def __init__(self, now: Mapping[str, bytes]) -> None:
        self._now = now
        self._goal = dict(now)
        self._records = dict(UsageFile.parse(now.get(USAGE)).records)
        self._undone: defaultdict[str, set[str]] = defaultdict(set)
        self._folders: dict[str, str] = {}
        self._away: dict[str, str] = {}
        self._refused: dict[str, CurationResult] = {}

    def undo(self, backup: Backup) -> None:
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
                self._give_state_back(name, before)

    def draft(self) -> Draft:
        if self._records != UsageFile.parse(self._now.get(USAGE)).records:
            self._goal[USAGE] = UsageFile(self._records).encoded()
        # A move keeps permissions, and files that no backup holds.
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
        # Deepest first, so that no empty folder is left over.
        gone = sorted(set(now) - set(goal), key=lambda path: (-path.count("/"), path))
        changes += [Remove(path, digest(now[path])) for path in gone]
        done = tuple(
            self._done(name)
            for name, paths in sorted(self._undone.items())
            if any(goal.get(path) != self._now.get(path) for path in paths)
        )
        return Draft(tuple(changes), done, tuple(self._refused.values()))

    def _done(self, name: str) -> CurationResult:
        is_left = any(path in self._goal for path in self._undone[name] if _is_document(path))
        was_there = any(path in self._now for path in self._undone[name] if _is_document(path))
        return CurationResult(Kind.REMOVED if was_there and not is_left else Kind.RESTORED, name)

    def _by_folder(self, backup: Backup) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the changed files by folder: first of skills, then of archived skills."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for path in sorted(backup.after, key=lambda path: (path.startswith(ARCHIVE), path)):
            top, _, rest = path.partition("/")
            is_skill = any(f"{top}/{DOCUMENT}" in each for each in (backup.library, self._goal))
            folder = top if is_skill else f"{top}/{rest.partition('/')[0]}"
            found[folder].append(path)
        yield from found.items()

    def _problem(self, folder: str, paths: Sequence[str], backup: Backup) -> str:
        name = folder.rpartition("/")[2]
        here = [path for path in self._goal if path.startswith(f"{folder}/")]
        if not here:
            others = (path for path in self._goal if not path.startswith(ARCHIVE))
            taken = any(f"/{path}".endswith(f"/{name}/{DOCUMENT}") for path in others)
            return TAKEN if taken else ""
        if not self._is_ours(paths, backup):
            return CHANGED
        if UsageFile(self._records).get(name).pinned:
            return Protection.PINNED
        goes = f"{folder}/{DOCUMENT}" not in backup.library
        return CHANGED if goes and set(here) - set(paths) else ""

    def _is_ours(self, paths: Sequence[str], backup: Backup) -> bool:
        """Return whether all files are as they were after, or before, the change."""
        return all(
            digest(self._goal.get(path)) in (backup.after[path], digest(backup.library.get(path)))
            for path in paths
        )

    def _give_state_back(self, name: str, before: Mapping[str, Any]) -> None:
        """Restore a skill's state, but keep the use that was counted since."""
        if name not in before:
            self._records.pop(name, None)
            return
        now, then = object_of(self._records.get(name)), object_of(before[name])
        kept = {key: value for key, value in now.items() if key not in _STATE_FIELDS}
        self._records[name] = kept | {key: then[key] for key in _STATE_FIELDS if key in then}

    def _give_back(self, paths: Sequence[str], backup: Backup) -> None:
        for path in paths:
            self._goal.pop(path, None)
            self._goal |= {path: backup.library[path]} if path in backup.library else {}


def _is_document(path: str) -> bool:
    return path.endswith(f"/{DOCUMENT}")
