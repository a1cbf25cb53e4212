"""What the curator does to skills, worked out and told."""

from enum import StrEnum

from msgspec import Struct

from agent_service.skills.journal import Change


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
