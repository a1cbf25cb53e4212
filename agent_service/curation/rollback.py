"""Works out what a library is without the curator's changes since a backup, and with all others.

Each change is undone where the library still is as that change left it. A skill that anybody has
changed since, or that has come since, stays as it is.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from agent_service.curation.backups import Backup
from agent_service.curation.changes import Done, Draft, Kind
from agent_service.skills.journal import Change, Move, Remove, Write, applied, digest
from agent_service.skills.library import USAGE, Protection
from agent_service.skills.names import ARCHIVE, DOCUMENT
from agent_service.skills.usage import UsageFile

_RECORD = f"{USAGE}#"
"""Begins the names of records of use, which are undone one by one."""
CHANGED = "it was changed since, and stays as it is"
TAKEN = "there is another skill of that name now; this one stays in the archive"


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Mapping[str, str]:
    """What a change makes of each file and record that it changes, by its digest."""
    old, new = _parts(before), _parts(after)
    return {
        path: digest(new.get(path))
        for path in sorted({*old, *new})
        if old.get(path) != new.get(path)
    }


class Rollback:
    """Undoes changes one after the other, the latest first."""

    def __init__(self, now: Mapping[str, bytes]) -> None:
        self._now = now
        self._parts = dict(_parts(now))
        self._oldest: Mapping[str, bytes] = {}
        self._moves: dict[str, str] = {}
        """Folders of the archive, by the folders of skills that they become again."""
        self._undone: defaultdict[str, set[str]] = defaultdict(set)
        """The files of skills that were given back, by name."""
        self._refused: dict[str, Done] = {}

    def undo(self, backup: Backup) -> None:
        """Undo the change before which a backup was made."""
        self._oldest = backup.library
        before, away = _parts(backup.library), _moved_away(backup)
        skills, archived = self._by_folder(backup)
        for folder, paths in skills.items():
            self._undo_skill(folder, paths, backup.after, before, away.get(folder, ""))
        kept = {target for folder, target in away.items() if _name(folder) in self._refused}
        for folder, paths in archived.items():
            if folder not in kept and self._is_ours(paths, backup.after, before):
                self._give_back(paths, before)
        self._undo_records(backup.after, before)

    def draft(self) -> Draft:
        """What is to be done to the library."""
        goal = {path: data for path, data in self._parts.items() if not path.startswith(_RECORD)}
        if (usage := self._usage()) is not None:
            goal[USAGE] = usage
        moves = [Move(source, folder) for folder, source in self._moves.items()]
        there = applied(self._now, moves)
        changes: list[Change] = [*moves]
        for path, data in goal.items():
            if there.get(path) != data:
                changes.append(Write(path, digest(there.get(path)), data))
        # The deepest first, so that no folder is left over.
        gone = sorted(set(there) - set(goal), key=lambda path: (-path.count("/"), path))
        changes += [Remove(path, digest(there[path])) for path in gone]
        return Draft(tuple(changes), self._done(), tuple(self._refused.values()))

    def _done(self) -> tuple[Done, ...]:
        """The skills that are other ones than now, or in another state."""
        found: dict[str, Done] = {}
        for name, paths in self._undone.items():
            if any(self._parts.get(path) != self._now.get(path) for path in paths):
                is_there = any(path in self._parts for path in paths if _is_document(path))
                was_there = any(path in self._now for path in paths if _is_document(path))
                is_removed = was_there and not is_there
                found[name] = Done(Kind.REMOVED if is_removed else Kind.RESTORED, name)
        before, after = UsageFile.parse(self._now.get(USAGE)), UsageFile(self._records())
        for name in {*before.records, *after.records} - found.keys():
            if before.of(name).state is not after.of(name).state:
                found[name] = Done(Kind.RESTORED, name)
        return tuple(found[name] for name in sorted(found))

    def _by_folder(self, backup: Backup) -> tuple[Mapping[str, list[str]], Mapping[str, list[str]]]:
        """The files that were changed, by the folders of skills, and of archived ones."""
        everything = [*backup.library, *self._parts, *backup.after]
        folders = {path.removesuffix(f"/{DOCUMENT}") for path in everything if _is_document(path)}
        skills: defaultdict[str, list[str]] = defaultdict(list)
        archived: defaultdict[str, list[str]] = defaultdict(list)
        for path in backup.after:
            if not path.startswith(_RECORD):
                above = [path[:at] for at, char in enumerate(path) if char == "/"]
                folder = next((each for each in above if each in folders), path)
                (archived if folder.startswith(f"{ARCHIVE}/") else skills)[folder].append(path)
        return skills, archived

    def _undo_skill(
        self,
        folder: str,
        paths: list[str],
        after: Mapping[str, str],
        before: Mapping[str, bytes],
        away: str,
    ) -> None:
        name = _name(folder)
        if problem := self._problem(folder, paths, after, before):
            self._refused[name] = Done(Kind.RESTORED, name, reason=problem)
            return
        self._undone[name].update(paths)
        below = f"{away}/"
        there = {path for path in self._now if path.startswith(below)} if away else set[str]()
        was_moved = {path for path, left in after.items() if path.startswith(below) and left}
        if away and there == was_moved and all(digest(self._now[p]) == after[p] for p in there):
            self._moves[folder] = away
        self._give_back(paths, before)

    def _problem(
        self,
        folder: str,
        paths: list[str],
        after: Mapping[str, str],
        before: Mapping[str, bytes],
    ) -> str:
        """Why a skill stays as it is; empty where it does not."""
        name, below = _name(folder), f"{folder}/"
        here = [path for path in self._parts if path.startswith(below)]
        if not here:
            skills = (
                path.removesuffix(f"/{DOCUMENT}") for path in self._parts if _is_document(path)
            )
            others = [each for each in skills if not each.startswith(f"{ARCHIVE}/")]
            return TAKEN if name in map(_name, others) else ""
        if not self._is_ours(paths, after, before):
            return CHANGED
        if UsageFile(self._records()).of(name).pinned:
            return Protection.PINNED
        goes = f"{folder}/{DOCUMENT}" not in before
        return CHANGED if goes and any(path not in paths for path in here) else ""

    def _is_ours(
        self, paths: Iterable[str], after: Mapping[str, str], before: Mapping[str, bytes]
    ) -> bool:
        """Whether all is as the change left it, or found it: it may never have been made."""
        return all(
            digest(self._parts.get(path)) in (after[path], digest(before.get(path)))
            for path in paths
        )

    def _give_back(self, paths: Iterable[str], before: Mapping[str, bytes]) -> None:
        for path in paths:
            if path in before:
                self._parts[path] = before[path]
            else:
                self._parts.pop(path, None)

    def _undo_records(self, after: Mapping[str, str], before: Mapping[str, bytes]) -> None:
        for path in after:
            name = path.removeprefix(_RECORD)
            if not path.startswith(_RECORD) or name in self._refused:
                continue
            # Of a skill that was away, what was recorded since tells of the one in the archive.
            is_back = any(_name(folder) == name for folder in self._moves)
            if is_back or self._is_ours([path], after, before):
                self._give_back([path], before)

    def _records(self) -> dict[str, Any]:
        return {
            path.removeprefix(_RECORD): json.loads(data)
            for path, data in self._parts.items()
            if path.startswith(_RECORD)
        }

    def _usage(self) -> bytes | None:
        """The file of records, as it was written where it holds the same."""
        records = self._records()
        for library in (self._now, self._oldest):
            if dict(UsageFile.parse(library.get(USAGE)).records) == records:
                return library.get(USAGE)
        return UsageFile(records).encoded()


def _moved_away(backup: Backup) -> Mapping[str, str]:
    """Where skills were archived by a change, by their folders before it."""
    archived: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for path, left in backup.after.items():
        if left and path.startswith(f"{ARCHIVE}/"):
            _, folder, file = path.split("/", 2)
            archived[f"{ARCHIVE}/{folder}"][file] = left
    found: dict[str, str] = {}
    for path, left in backup.after.items():
        folder = path.removesuffix(f"/{DOCUMENT}")
        if left or not _is_document(path) or path not in backup.library:
            continue
        files = {
            each.removeprefix(f"{folder}/"): digest(data)
            for each, data in backup.library.items()
            if each.startswith(f"{folder}/")
        }
        same = next((each for each, theirs in archived.items() if theirs == files), None)
        if same is not None:
            found[folder] = same
            del archived[same]
    return found


def _is_document(path: str) -> bool:
    return path.endswith(f"/{DOCUMENT}")


def _name(folder: str) -> str:
    return folder.rpartition("/")[2]


def _parts(library: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files of a library, and its records instead of their file."""
    parts = {path: data for path, data in library.items() if path != USAGE}
    for name, record in UsageFile.parse(library.get(USAGE)).records.items():
        parts[_RECORD + name] = json.dumps(record, sort_keys=True).encode()
    return parts
