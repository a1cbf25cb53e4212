"""Skills over random histories of use: records, wire and rules, as docs/curator.md says."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from agent_service.convert import curation as of_agent
from agent_service.curation.changes import Move, applied
from agent_service.curation.drafting import Drafting
from agent_service.curation.snapshot import Held, Snapshot
from agent_service.skills.document import Conditions
from agent_service.skills.library import USAGE, Origin, Skill
from agent_service.skills.usage import Usage, UsageFile, timestamp
from scheduler_service.convert import curator as of_scheduler
from scheduler_service.curator_records import CuratorRun, Order, RunState
from scheduler_service.transitions import Ages, transitions

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
USES = ("viewed", "used", "patched")
WHATS = (*USES, "pinned", "unpinned", "restored", "of a job", "of none", *["curated"] * 6)

steps = st.tuples(st.integers(1, 40), st.sampled_from("ab"), st.sampled_from(WHATS))
"""After how many days what happens to which skill; all are curated together."""
ages = st.tuples(st.integers(1, 40), st.integers(0, 80)).map(
    lambda days: Ages(days[0] * DAY, (days[0] + days[1]) * DAY)
)


class Rules(Struct):
    """What the docs say of a skill: the independent model."""

    since: datetime | None
    """Its age counts from there; None where no run has seen it."""
    state: str = "active"
    is_used: bool = False
    is_pinned: bool = False
    is_of_job: bool = False
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USES, 0))

    def happens(self, what: str, now: datetime) -> None:
        """Something other than a run of the curator."""
        if what in USES:
            self.counts[what] += 1
        if what in (*USES, "restored"):
            self.since, self.is_used, self.state = now, True, "active"
        self.is_pinned = what == "pinned" or (self.is_pinned and what != "unpinned")
        self.is_of_job = what == "of a job" or (self.is_of_job and what != "of none")

    def curated(self, now: datetime, of: Ages) -> None:
        """A run of the curator."""
        if self.state == "archived":
            return
        self.since = self.since or now
        age = now - self.since
        if self.is_pinned or self.is_of_job:
            return
        if age >= of.archived and (self.is_used or age >= 30 * DAY):
            self.state = "archived"
        else:
            self.state = "stale" if age >= of.stale else "active"


class Shelf:
    """A library in memory, which is changed as the real one is."""

    def __init__(self, records: Mapping[str, Usage]) -> None:
        self.files: Mapping[str, bytes] = {"a/SKILL.md": b"", "b/SKILL.md": b""}
        self._store(records)

    def usage(self, name: str) -> Usage:
        """What the file of records says."""
        return UsageFile.parse(self.files[USAGE]).of(name)

    def happens(self, name: str, what: str, now: datetime) -> None:
        """Something other than a run of the curator."""
        usage, at = self.usage(name), timestamp(now)
        match what:
            case "viewed" | "used" | "patched":
                usage = getattr(usage, what)(at)
            case "pinned" | "unpinned":
                usage = usage.with_pin(is_pinned=what == "pinned")
            case "restored":
                usage = usage.restored(at)
                self.files = applied(self.files, [Move(f".archive/{name}", name)])
            case _:
                return
        self._store({name: usage})

    def curated(self, jobs: frozenset[str], now: datetime, of: Ages) -> Sequence[str]:
        """A run of the curator, as agent and scheduler make it; returns what was done."""
        snapshot = self._snapshot()
        skills = [of_scheduler.use_of(of_agent.used(held)) for held in snapshot.skills.values()]
        found = transitions(skills, jobs, now, of)
        used = {skill.name: skill.last_active_at for skill in skills}
        run = CuratorRun("run", "default", False, RunState.OPEN, now)
        order = of_agent.order(of_scheduler.order_to_wire(Order(run, 1, found, used, jobs)))
        drafting = Drafting(snapshot, jobs, now)
        drafting.transitions(order.transitions)
        draft = drafting.draft()
        assert draft.refused == ()
        self.files = applied(self.files, draft.changes)
        return [done.name for done in draft.done]

    def _snapshot(self) -> Snapshot:
        data = self.files[USAGE]
        records = UsageFile.parse(data)
        held = {
            name: Held(Skill(name, "", name, Conditions(), (), ()), Origin.USER, records.of(name))
            for name in "ab"
            if f"{name}/SKILL.md" in self.files
        }
        return Snapshot(held, frozenset("ab"), frozenset(), records, data)

    def _store(self, records: Mapping[str, Usage]) -> None:
        before = UsageFile.parse(self.files.get(USAGE))
        self.files = {**self.files, USAGE: before.with_records(records).encoded()}


def check(shelf: Shelf, rules: Mapping[str, Rules]) -> None:
    """The library is as the rules say."""
    for name, rule in rules.items():
        found = shelf.usage(name)
        place = ".archive/" if rule.state == "archived" else ""
        assert f"{place}{name}/SKILL.md" in shelf.files
        assert (found.state, found.pinned) == (rule.state, rule.is_pinned)
        assert found.active_time == (rule.since if rule.is_used else None)
        counts = (found.view_count, found.use_count, found.patch_count)
        assert counts == tuple(rule.counts.values())


@settings(deadline=None)  # a busy machine is no error
@given(st.lists(steps, max_size=40), ages)
def test_after_any_history_skills_are_where_the_rules_say(
    history: Sequence[tuple[int, str, str]], of: Ages
) -> None:
    now = BEGIN
    # One was made by the agent, of the other there is no record.
    shelf = Shelf({"a": Usage().created(timestamp(now))})
    rules = {"a": Rules(now), "b": Rules(None)}
    for days, name, what in history:
        now += days * DAY
        if what == "curated":
            jobs = frozenset(each for each, rule in rules.items() if rule.is_of_job)
            shelf.curated(jobs, now, of)
            assert shelf.curated(jobs, now, of) == [], "done once, it is done"
            for rule in rules.values():
                rule.curated(now, of)
        elif (rules[name].state == "archived") == (what == "restored"):
            # What is put away cannot be used, and what is not cannot be brought back.
            shelf.happens(name, what, now)
            rules[name].happens(what, now)
        check(shelf, rules)
