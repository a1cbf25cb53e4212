"""Works out how a library becomes again what it was, with as few changes as that takes."""

from collections.abc import Collection, Mapping, Sequence

from agent_service.curation.changes import Change, Move, Remove, Write, applied, digest
from agent_service.skills.names import ARCHIVE, DOCUMENT


def restoring(
    now: Mapping[str, bytes], wanted: Mapping[str, bytes], spare: Collection[str]
) -> Sequence[Change]:
    """The changes by which files that are there now become those that are wanted.

    A skill that was put away moves back as a folder, with whatever is in it that no backup holds,
    such as links and permissions. `spare` are the folders of the archive that may.
    """
    moves = _moves(now, wanted, spare)
    there = applied(now, moves)
    away = tuple(f"{move.source}/" for move in moves)
    wanted = {path: data for path, data in wanted.items() if not path.startswith(away)}
    changes: list[Change] = [*moves]
    for path, data in wanted.items():
        before = there.get(path)
        if before != data:
            changes.append(Write(path, digest(before), data))
    # The deepest first, so that no folder is left over.
    gone = sorted(set(there).difference(wanted), key=lambda path: (-path.count("/"), path))
    changes += [Remove(path, digest(there[path])) for path in gone]
    return changes


def folder_of(path: str) -> str:
    """The folder of the skill whose SKILL.md a path is; empty where it is none."""
    return path.removesuffix(f"/{DOCUMENT}") if path.endswith(f"/{DOCUMENT}") else ""


def is_archived(folder: str) -> bool:
    """Whether it is a folder of the archive."""
    return folder.startswith(f"{ARCHIVE}/")


def _moves(
    now: Mapping[str, bytes], wanted: Mapping[str, bytes], spare: Collection[str]
) -> list[Move]:
    """Folders of the archive that are skills again, as they were."""
    archived = {folder: _files(now, folder) for folder in sorted(spare)}
    moves: list[Move] = []
    for folder in sorted(found for path in wanted if (found := folder_of(path))):
        if is_archived(folder) or _files(now, folder):
            continue
        files = _files(wanted, folder)
        same = next((each for each, theirs in archived.items() if theirs == files), None)
        if same is not None:
            del archived[same]
            moves.append(Move(same, folder))
    return moves


def _files(library: Mapping[str, bytes], folder: str) -> Mapping[str, bytes]:
    return {
        path.removeprefix(folder): data
        for path, data in library.items()
        if path.startswith(f"{folder}/")
    }
