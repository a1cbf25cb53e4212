"""What a run does to a library: files that are written, and folders that are put elsewhere."""

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct


class Write(Struct, frozen=True, tag="write"):
    """A file to write, where it still is as it was."""

    path: str
    before: str
    """Digest of what it holds; empty where there is none."""
    data: bytes


class Remove(Struct, frozen=True, tag="remove"):
    """A file to take away, where it still is as it was; a backup has it."""

    path: str
    before: str


class Move(Struct, frozen=True, tag="move"):
    """A folder that gets another place."""

    source: str
    target: str


Change = Write | Move | Remove


class Kind(StrEnum):
    """What was done to a skill."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"
    MERGED = "merged"
    PRUNED = "pruned"
    CREATED = "created"
    RESTORED = "restored"
    REMOVED = "removed"


class Done(Struct, frozen=True):
    """Something that was done to a skill, or was not, and why."""

    kind: Kind
    name: str
    into: str = ""
    reason: str = ""


class Draft(Struct, frozen=True):
    """Everything that a run does, worked out and not done."""

    changes: tuple[Change, ...]
    done: tuple[Done, ...]
    refused: tuple[Done, ...]


def applied(library: Mapping[str, bytes], changes: Iterable[Change]) -> Mapping[str, bytes]:
    """What a library holds after changes."""
    there = dict(library)
    for change in changes:
        match change:
            case Write(path, _, data):
                there[path] = data
            case Remove(path, _):
                there.pop(path, None)
            case Move(source, target):
                for path in [path for path in there if path.startswith(f"{source}/")]:
                    there[target + path.removeprefix(source)] = there.pop(path)
    return there


def digest(data: bytes | None) -> str:
    """By which a file is known to be as it was; empty where there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
