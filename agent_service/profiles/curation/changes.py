"""What a curation run plans to change in a library, and what it changed."""

import itertools
import re
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from agent_service.profiles.skills.journal import Change


class Kind(StrEnum):
    """Kind of change to a skill."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"
    MERGED = "merged"
    PRUNED = "pruned"
    CREATED = "created"
    RESTORED = "restored"
    REMOVED = "removed"


class CurationResult(Struct, frozen=True):
    """A change to a skill, or why it was not made."""

    kind: Kind
    name: str
    into: str = ""
    reason: str = ""


class Draft(Struct, frozen=True):
    """All changes of a run, planned and not yet made."""

    changes: tuple[Change, ...]
    done: tuple[CurationResult, ...]
    refused: tuple[CurationResult, ...]


STAMP = re.compile(r"\d{8}-\d{6}(?:-\d+)?")
"""The name of a backup or report: a time, and a number if several have the same time."""


def free_stamp(now: datetime, taken: Collection[str]) -> str:
    """Return a stamp of now that is not taken."""
    stamp = f"{now:%Y%m%d-%H%M%S}"
    tries = itertools.chain([stamp], (f"{stamp}-{count}" for count in itertools.count(2)))
    return next(each for each in tries if each not in taken)


def stamp_order(stamp: str) -> tuple[str, int]:
    """Return the sort key of a stamp."""
    day, time, *count = stamp.split("-")
    return day + time, int(count[0]) if count else 1
