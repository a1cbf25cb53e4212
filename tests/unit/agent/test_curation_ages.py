"""What becomes of skills, over random uses, against the rules as they are written."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_service.profiles.curation.changes import CurationResult
from agent_service.profiles.curation.drafts import Ages, transition
from agent_service.profiles.skills.usage import SkillState, Usage, timestamp

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
AGES = Ages()

moments = st.integers(-200 * 86_400, 3600).map(lambda s: timestamp(NOW + timedelta(seconds=s)))
uses = st.builds(
    Usage,
    state=st.sampled_from(SkillState),
    created_at=st.none() | moments,
    last_used_at=st.none() | moments,
)
ages = st.tuples(st.integers(1, 60), st.integers(0, 60)).map(
    lambda days: Ages(days[0] * DAY, (days[0] + days[1]) * DAY)
)


def only(usage: Usage, now: datetime = NOW, of: Ages = AGES) -> CurationResult | None:
    return transition("a", usage, now, of)


@given(uses, ages)
def test_each_state_follows_from_the_time_without_activity(usage: Usage, of: Ages) -> None:
    found = only(usage, of=of)
    if usage.state is SkillState.ARCHIVED:
        assert found is None
        return
    state = SkillState(found.kind.value) if found else usage.state
    since = usage.active_time or usage.created_time
    if since is None:
        assert found is None
        return
    idle = NOW - since
    was_used = usage.active_time is not None
    if idle >= of.archived and (was_used or idle >= 30 * DAY):
        assert state is SkillState.ARCHIVED
    elif idle >= of.stale:
        assert state is SkillState.STALE
    else:
        assert state is SkillState.ACTIVE


@given(uses, ages)
def test_what_was_done_once_is_not_to_be_done_again(usage: Usage, of: Ages) -> None:
    found = only(usage, of=of)
    if found is not None:
        state = SkillState(found.kind.value)
        assert state is not usage.state
        assert only(replace(usage, state=state), of=of) is None
