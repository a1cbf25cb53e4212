"""What becomes of skills, over random uses, against the rules as they are written."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.transitions import (
    Ages,
    SkillState,
    SkillUse,
    Transition,
    transitions,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
AGES = Ages()

moments = st.integers(-200 * 86_400, 3600).map(lambda s: NOW + timedelta(seconds=s))
uses = st.builds(
    SkillUse,
    name=st.sampled_from("abcdefgh"),
    state=st.sampled_from(SkillState),
    is_protected=st.booleans(),
    created_at=st.none() | moments,
    last_active_at=st.none() | moments,
)
ages = st.tuples(st.integers(1, 60), st.integers(0, 60)).map(
    lambda days: Ages(days[0] * DAY, (days[0] + days[1]) * DAY)
)


def only(skill: SkillUse, now: datetime = NOW, of: Ages = AGES) -> Transition | None:
    found = transitions([skill], (), now, of)
    return found[0] if found else None


def used(days_ago: float, state: SkillState = SkillState.ACTIVE, age: float = 300) -> SkillUse:
    return SkillUse("a", state, False, NOW - age * DAY, NOW - days_ago * DAY)


@given(uses, st.sets(st.sampled_from("abcdefgh")), ages)
def test_protected_skills_and_those_of_jobs_never_change(
    skill: SkillUse, jobs: set[str], of: Ages
) -> None:
    found = transitions([skill], jobs, NOW, of)
    if skill.is_protected or skill.name in jobs or skill.state is SkillState.ARCHIVED:
        assert found == []


@given(uses, ages)
def test_each_state_follows_from_the_time_without_activity(skill: SkillUse, of: Ages) -> None:
    found = only(skill, of=of)
    if skill.is_protected or skill.state is SkillState.ARCHIVED:
        return
    state = found.to if found else skill.state
    since = skill.last_active_at or skill.created_at
    if since is None:
        assert found is None
        return
    idle = NOW - since
    was_used = skill.last_active_at is not None
    if idle >= of.archived and (was_used or idle >= 30 * DAY):
        assert state is SkillState.ARCHIVED
    elif idle >= of.stale:
        assert state is SkillState.STALE
    else:
        assert state is SkillState.ACTIVE


@given(uses, ages)
def test_a_skill_that_was_never_used_is_not_archived_in_its_first_30_days(
    skill: SkillUse, of: Ages
) -> None:
    is_new = skill.created_at is not None and NOW - skill.created_at < 30 * DAY
    found = only(skill, of=of)
    if skill.last_active_at is None and is_new:
        assert found is None or found.to is not SkillState.ARCHIVED


@given(uses, ages)
def test_what_was_done_once_is_not_to_be_done_again(skill: SkillUse, of: Ages) -> None:
    found = only(skill, of=of)
    if found is not None:
        assert found.to is not skill.state
        after = SkillUse(
            skill.name, found.to, skill.is_protected, skill.created_at, skill.last_active_at
        )
        assert only(after, of=of) is None


@given(st.lists(uses, max_size=8, unique_by=lambda skill: skill.name))
def test_no_skill_depends_on_another_nor_on_the_order(skills: list[SkillUse]) -> None:
    together = transitions(skills, (), NOW, AGES)
    assert together == transitions(skills[::-1], (), NOW, AGES)
    alone = [found for skill in skills if (found := only(skill))]
    assert together == sorted(alone, key=lambda each: each.name)


def test_the_days_on_which_it_happens() -> None:
    assert only(used(29.9)) is None
    stale = only(used(30))
    assert stale == Transition("a", SkillState.STALE, "not used for 30 days")
    assert only(used(89.9, SkillState.STALE)) is None
    archived = only(used(90, SkillState.STALE))
    assert archived == Transition("a", SkillState.ARCHIVED, "not used for 90 days")
    assert only(used(90)) == archived
    back = only(used(1, SkillState.STALE))
    assert back == Transition("a", SkillState.ACTIVE, "it was used again")
    never = SkillUse("a", SkillState.ACTIVE, False, NOW - 90 * DAY, None)
    assert only(never) == Transition("a", SkillState.ARCHIVED, "never used for 90 days")


def test_short_ages_do_not_put_away_what_is_new() -> None:
    short = Ages(DAY, 2 * DAY)
    new = SkillUse("a", SkillState.ACTIVE, False, NOW - 29 * DAY, None)
    found = only(new, of=short)
    assert found is not None
    assert found.to is SkillState.STALE
    older = SkillUse("a", SkillState.STALE, False, NOW - 30 * DAY, None)
    found = only(older, of=short)
    assert found is not None
    assert found.to is SkillState.ARCHIVED
