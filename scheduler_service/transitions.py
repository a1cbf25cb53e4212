"""What becomes of skills as time passes, by rules alone: a pure function of use and time."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

NEW = timedelta(days=30)
"""For so long a skill that was never used is not archived, however short the ages are."""


class SkillState(StrEnum):
    """Where a skill is in its life."""

    ACTIVE = "active"
    STALE = "stale"
    ARCHIVED = "archived"


class SkillUse(Struct, frozen=True):
    """A skill of the library, as far as the rules read it."""

    name: str
    state: SkillState
    is_protected: bool
    """It came with Hermes or from a hub, or the user has pinned it."""
    created_at: datetime | None
    """When it came to be, or is first known to have been there; None where nobody knows."""
    last_active_at: datetime | None
    """When it was last followed, read or changed; None where it never was."""


class Ages(Struct, frozen=True):
    """After how long without activity a skill is put away, in two steps."""

    stale: timedelta = timedelta(days=30)
    archived: timedelta = timedelta(days=90)


class Transition(Struct, frozen=True):
    """A skill that goes from one state to another."""

    name: str
    to: SkillState
    why: str
    """For people."""


def transitions(
    skills: Sequence[SkillUse], of_jobs: Collection[str], now: datetime, ages: Ages
) -> list[Transition]:
    """What is to become of which skills, by name; those that stay as they are are left out."""
    found = (_of(skill, now, ages) for skill in skills if not _is_kept(skill, of_jobs))
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


def _is_kept(skill: SkillUse, of_jobs: Collection[str]) -> bool:
    return skill.is_protected or skill.name in of_jobs or skill.state is SkillState.ARCHIVED


def _of(skill: SkillUse, now: datetime, ages: Ages) -> Transition | None:
    since = skill.last_active_at or skill.created_at
    if since is None:
        # Its age is not known, so that it cannot be too old.
        return None
    idle = now - since
    # Whoever has never used it may not have had the occasion yet.
    may_go = skill.last_active_at is not None or idle >= NEW
    if idle >= ages.archived and may_go:
        return Transition(skill.name, SkillState.ARCHIVED, _unused(skill, idle))
    wanted = SkillState.STALE if idle >= ages.stale else SkillState.ACTIVE
    if wanted is skill.state:
        return None
    why = _unused(skill, idle) if wanted is SkillState.STALE else "it was used again"
    return Transition(skill.name, wanted, why)


def _unused(skill: SkillUse, idle: timedelta) -> str:
    done = "not used" if skill.last_active_at else "never used"
    return f"{done} for {idle.days} days"
