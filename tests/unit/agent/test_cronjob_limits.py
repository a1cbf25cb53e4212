"""What jobs may have that are made in conversations which have not everything."""

import pytest

from agent_service.config.toolsets import NOTHING
from agent_service.records.jobs import JobChange
from agent_service.tools.base import RetryWithHint
from agent_service.tools.cronjob.cronjob import limited

HAS = frozenset({"cron", "web"})


def test_a_job_without_any_toolset_can_be_changed_by_who_made_it() -> None:
    changed = limited(JobChange(prompt="look"), HAS, before=JobChange(toolsets=NOTHING))
    assert changed.toolsets == NOTHING


@pytest.mark.parametrize(
    "wish",
    [JobChange(toolsets=("web", "file")), JobChange(script="true"), JobChange(skills=("tea",))],
)
def test_more_than_the_conversation_has_is_refused(wish: JobChange) -> None:
    with pytest.raises(RetryWithHint, match="cannot give a job"):
        limited(wish, HAS)


def test_a_job_that_names_none_gets_what_the_conversation_has_of_those_for_jobs() -> None:
    assert limited(JobChange(), HAS).toolsets == ("web",)
    assert limited(JobChange(), frozenset()).toolsets is None
