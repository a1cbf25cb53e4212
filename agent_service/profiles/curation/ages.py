"""Ages skills by fixed rules: a pure function of their use and the time."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from agent_service.profiles.curation.changes import CurationResult, Kind
from agent_service.profiles.curation.snapshot import KnownSkill
from agent_service.profiles.skills.usage import SkillState, Usage

NEW = timedelta(days=30)
"""A skill that was never used is not archived before this age, however short the ages are."""


class Ages(Struct, frozen=True):
    """How long a skill must be inactive before its state changes."""

    stale: timedelta = timedelta(days=30)
    archived: timedelta = timedelta(days=90)


def transitions(
    skills: Iterable[KnownSkill], of_jobs: Collection[str], now: datetime, ages: Ages
) -> list[CurationResult]:
    """Return the due state changes by skill name; protected skills and skills of jobs stay."""
    found = (
        transition(held.skill.name, held.usage, now, ages)
        for held in skills
        if not held.protection and held.skill.name not in of_jobs
    )
    return sorted((each for each in found if each is not None), key=lambda each: each.name)


def transition(name: str, usage: Usage, now: datetime, ages: Ages) -> CurationResult | None:
    """Return the state change that is due for a skill; None if it stays as it is."""
    since = usage.active_time or usage.created_time
    if since is None or usage.state is SkillState.ARCHIVED:
        # A skill of unknown age cannot be too old.
        return None
    idle = now - since
    unused = f"{'not' if usage.active_time else 'never'} used for {idle.days} days"
    # A skill that was never used may not have had an occasion yet.
    may_go = usage.active_time is not None or idle >= NEW
    if idle >= ages.archived and may_go:
        return CurationResult(Kind.ARCHIVED, name, reason=unused)
    wanted = SkillState.STALE if idle >= ages.stale else SkillState.ACTIVE
    if wanted is usage.state:
        return None
    why = unused if wanted is SkillState.STALE else "it was used again"
    return CurationResult(Kind(wanted.value), name, reason=why)
