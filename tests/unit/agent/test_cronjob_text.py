"""Jobs as a model reads them."""

from datetime import UTC, datetime

from msgspec.structs import replace

from agent_service.records.jobs import JobChange, JobView
from agent_service.tools.cronjob.text import listed

JOB = JobView(
    id="job_a",
    name="news",
    schedule="every 2h",
    time_zone="UTC",
    state="paused",
    deliver_to=("slack",),
    wish=JobChange(),
    changed_at=datetime(2026, 1, 1, tzinfo=UTC),
    pause_reason="no chat of slack is named",
)


def test_a_paused_job_says_why_where_nobody_has_paused_it() -> None:
    assert listed([JOB]) == (
        "job_a “news”: every 2h. Paused: no chat of slack is named.\n  to: slack"
    )
    by_somebody = replace(JOB, pause_reason="")
    assert listed([by_somebody]) == "job_a “news”: every 2h. Paused.\n  to: slack"
