"""Works out what a run may do: protected skills never change, and nothing is ever deleted.

Skills can only move to the archive, or gain text and files.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from agent_service.profiles.curation.changes import CurationResult, Draft, Kind
from agent_service.profiles.curation.plan import Merge, Plan, Pruning
from agent_service.profiles.curation.snapshot import KnownSkill, Snapshot
from agent_service.profiles.curation.umbrella import Umbrella
from agent_service.profiles.skills.document import MAX_DESCRIPTION_CHARS, BadSkill, is_name
from agent_service.profiles.skills.journal import Change, Move, Write, digest
from agent_service.profiles.skills.library import USAGE
from agent_service.profiles.skills.names import archive_place, is_one_off
from agent_service.profiles.skills.usage import SkillState, Usage, timestamp

MIN_MEMBERS = 2


NEW = timedelta(days=30)
"""A skill that was never used is not archived before this age, however short the ages are."""


class Ages(Struct, frozen=True):
    """How long a skill must be inactive before its state changes."""

    stale: timedelta = timedelta(days=30)
    archived: timedelta = timedelta(days=90)


class ChangeCollector:
    """Collects the requested changes that are allowed."""

    def __init__(self, snapshot: Snapshot, job_skills: Collection[str], now: datetime) -> None:
        self._snapshot = snapshot
        self._job_skills = frozenset(job_skills)
        self._now = now
        self._gone: dict[str, str] = {}
        """Archive folders of archived skills, by skill name."""
        self._umbrellas: list[Umbrella] = []
        self._usage: dict[str, Usage] = {}
        self._done: list[CurationResult] = []
        self._refused: list[CurationResult] = []

    def transitions(self, ages: Ages) -> None:
        for done in transitions(self._snapshot.skills.values(), self._job_skills, self._now, ages):
            if done.kind is Kind.ARCHIVED:
                self._archive(done)
            else:
                state = SkillState(done.kind.value)
                self._usage[done.name] = replace(self._usage_of(done.name), state=state)
                self._done.append(done)

    def plan(self, plan: Plan) -> None:
        goals = {merge.into for merge in plan.consolidations}
        groups: defaultdict[str, list[Merge]] = defaultdict(list)
        for merge in plan.consolidations:
            done = CurationResult(Kind.MERGED, merge.source, merge.into, merge.reason)
            again = any(merge.source == each.source for group in groups.values() for each in group)
            problem = "it is named twice" if again else self._unfit(merge.source)
            if merge.source in goals:
                problem = "others are to become part of it, so that it stays"
            if problem:
                self._refuse(done, problem)
            else:
                groups[merge.into].append(merge)
        for into, merges in groups.items():
            self._merge(into, merges)
        for pruning in plan.prunings:
            self._prune(pruning, goals)

    def draft(self) -> Draft:
        changes: list[Change] = []
        for umbrella in self._umbrellas:
            changes += umbrella.writes()
        for name, target in self._gone.items():
            changes.append(Move(self._snapshot.skills[name].skill.folder, target))
        changes += self._usage_write()
        return Draft(tuple(changes), tuple(self._done), tuple(self._refused))

    def _unfit(self, name: str) -> str:
        held = self._snapshot.skills.get(name)
        if held is None:
            return "there is no such skill, or there are several"
        if name in self._gone:
            return "it is already archived"
        return held.protection

    def _merge(self, into: str, merges: Sequence[Merge]) -> None:
        try:
            umbrella = self._umbrella(into, merges)
            for merge in merges:
                umbrella.take_in(self._snapshot.skills[merge.source], merge)
            umbrella.check()
        except BadSkill as problem:
            for merge in merges:
                self._refuse(
                    CurationResult(Kind.MERGED, merge.source, into, merge.reason), str(problem)
                )
            return
        self._umbrellas.append(umbrella)
        at = timestamp(self._now)
        if umbrella.is_new:
            self._usage[into] = Usage().created(at)
            self._done.append(CurationResult(Kind.CREATED, into, reason=umbrella.description))
        else:
            self._usage[into] = self._usage_of(into).patched(at)
        for merge in merges:
            self._archive(CurationResult(Kind.MERGED, merge.source, into, merge.reason))

    def _umbrella(self, into: str, merges: Sequence[Merge]) -> Umbrella:
        held = self._snapshot.skills.get(into)
        if held is not None:
            if into in self._gone:
                raise BadSkill(f"{into} is archived")
            if held.protection:
                raise BadSkill(f"{into} takes nothing in: {held.protection}")
            return Umbrella.from_skill(held)
        if not is_name(into) or is_one_off(into):
            raise BadSkill(f"{into[:80]!r} is no name of a kind of work")
        if into in self._snapshot.taken:
            raise BadSkill(f"{into} is the name of something else")
        if len(merges) < MIN_MEMBERS:
            raise BadSkill(f"{into} would be made for a single skill")
        description = " ".join(next((m.description for m in merges if m.description), "").split())
        if not 1 <= len(description) <= MAX_DESCRIPTION_CHARS:
            raise BadSkill(f"{into} needs a description of 1 to {MAX_DESCRIPTION_CHARS} characters")
        categories = {self._snapshot.skills[merge.source].skill.category for merge in merges}
        return Umbrella.new(into, description, categories.pop() if len(categories) == 1 else "")

    def _prune(self, pruning: Pruning, goals: Collection[str]) -> None:
        done = CurationResult(Kind.PRUNED, pruning.name, reason=pruning.reason)
        problem = self._unfit(pruning.name)
        if pruning.name in goals:
            problem = "others are to become part of it, so that it stays"
        elif not problem and pruning.name in self._job_skills:
            problem = "a job uses it"
        if problem:
            self._refuse(done, problem)
        else:
            self._archive(done)

    def _archive(self, done: CurationResult) -> None:
        name = done.name
        target = archive_place(self._snapshot.archived, name, self._now)
        self._gone[name] = target
        folder = self._snapshot.skills[name].skill.folder
        self._usage[name] = self._usage_of(name).archived(timestamp(self._now), folder)
        self._done.append(done)

    def _refuse(self, done: CurationResult, problem: str) -> None:
        self._refused.append(CurationResult(done.kind, done.name[:80], done.into[:80], problem))

    def _usage_of(self, name: str) -> Usage:
        return self._usage.get(name, self._snapshot.usage.get(name))

    def _usage_write(self) -> Sequence[Write]:
        """Return the new usage records, which now cover every skill."""
        first_seen = timestamp(self._now)
        records: dict[str, Usage] = {
            name: _with_use(held.usage, first_seen)
            for name, held in self._snapshot.skills.items()
            if held.usage.created_at is None
        }
        records |= {name: _with_use(used, first_seen) for name, used in self._usage.items()}
        if not records:
            return ()
        data = self._snapshot.usage.with_records(records).encoded()
        return (Write(USAGE, digest(self._snapshot.usage_data), data),)


def _with_use(usage: Usage, at: str) -> Usage:
    return usage if usage.created_at else replace(usage, created_at=at)


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
