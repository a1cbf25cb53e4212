"""Works out how a library becomes again what a backup holds."""

from collections.abc import Mapping

from agent_service.curation.changes import Change, Done, Draft, Kind, Move, Remove, Write, digest
from agent_service.skills.names import ARCHIVE, DOCUMENT


def restoring(now: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> Draft:
    """The changes by which files that are there now become those that are wanted.

    A skill that was put away moves back as a folder, with whatever is in it that no backup holds,
    such as links and permissions.
    """
    moves = list(_moves(now, wanted))
    there = dict(now)
    for move in moves:
        for path in [path for path in there if path.startswith(f"{move.source}/")]:
            there[move.target + path.removeprefix(move.source)] = there.pop(path)
    changes: list[Change] = [*moves]
    for path, data in wanted.items():
        before = there.get(path)
        if before != data:
            changes.append(Write(path, digest(before), data))
    # The deepest first, so that no folder is left over.
    gone = sorted(set(there).difference(wanted), key=lambda path: (-path.count("/"), path))
    changes += [Remove(path, digest(there[path])) for path in gone]
    skills = sorted({folder for change in changes if (folder := _skill_of(change))})
    done = tuple(Done(Kind.RESTORED, folder) for folder in skills)
    return Draft(tuple(changes), done, ())


def _moves(now: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> list[Move]:
    """Folders of the archive that are skills again, as they were."""
    archived = {folder: _files(now, folder) for folder in _folders(now, is_archived=True)}
    new = [folder for folder in archived if not _files(wanted, folder)]
    moves: list[Move] = []
    for folder in _folders(wanted, is_archived=False):
        if _files(now, folder):
            continue
        files = _files(wanted, folder)
        same = next((each for each in new if archived[each] == files), None)
        if same is not None:
            new.remove(same)
            moves.append(Move(same, folder))
    return moves


def _folders(library: Mapping[str, bytes], *, is_archived: bool) -> list[str]:
    """The folders of skills."""
    found = (path.removesuffix(f"/{DOCUMENT}") for path in library if path.endswith(f"/{DOCUMENT}"))
    return sorted(each for each in found if each.startswith(f"{ARCHIVE}/") is is_archived)


def _files(library: Mapping[str, bytes], folder: str) -> Mapping[str, bytes]:
    return {
        path.removeprefix(folder): data
        for path, data in library.items()
        if path.startswith(f"{folder}/")
    }


def _skill_of(change: Change) -> str:
    """The skill whose folder changes; empty for records and the archive."""
    path = f"{change.target}/" if isinstance(change, Move) else change.path
    parts = path.split("/")
    if parts[0].startswith(".") or len(parts) < 2:
        return ""
    kinds = ("references", "templates", "scripts", "assets", DOCUMENT, "")
    return next((parts[at - 1] for at in range(1, len(parts)) if parts[at] in kinds), parts[0])
