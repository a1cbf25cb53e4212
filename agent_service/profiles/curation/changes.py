"""What the curator does to skills, worked out and told."""

import itertools
import re
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from agent_service.profiles.skills.journal import Change


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


class CurationResult(Struct, frozen=True):
    """Something that was done to a skill, or was not, and why."""

    kind: Kind
    name: str
    into: str = ""
    reason: str = ""


class Draft(Struct, frozen=True):
    """Everything that a run does, worked out and not done."""

    changes: tuple[Change, ...]
    done: tuple[CurationResult, ...]
    refused: tuple[CurationResult, ...]


STAMP = re.compile(r"\d{8}-\d{6}(?:-\d+)?")
"""What backups and reports are called by: a time, and a number where several have it."""


def free_stamp(now: datetime, taken: Collection[str]) -> str:
    """A stamp of now that nothing has."""
    stamp = f"{now:%Y%m%d-%H%M%S}"
    tries = itertools.chain([stamp], (f"{stamp}-{count}" for count in itertools.count(2)))
    return next(each for each in tries if each not in taken)


def stamp_order(stamp: str) -> tuple[str, int]:
    """By what stamps are sorted."""
    day, time, *count = stamp.split("-")
    return day + time, int(count[0]) if count else 1
