"""What is denied to a job's runs, and when it runs, as a file of jobs has it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler_service.home.jobs import ImportContext, ReadJob, read_document

READING = ImportContext("default", "UTC", datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1), {})


def read(**options: Any) -> ReadJob:
    """A job of a file with these options."""
    job = {"name": "news", "prompt": "look", "schedule": "every 2h", "options": options}
    (found,) = read_document(json.dumps([job]).encode(), READING)
    return found


def test_what_is_denied_is_kept() -> None:
    found = read(denied_commands=["memory", "cron add"])
    assert found.job is not None
    assert (found.job.spec.denied_commands, found.notes) == (("cron add", "memory"), ())
    nothing = read()
    assert nothing.job is not None
    assert nothing.job.spec.denied_commands == ()


@pytest.mark.parametrize("denied", ["memory", ["memory", 5], {"memory": True}, None, ["x" * 65]])
def test_a_job_of_which_it_cannot_be_read_is_not_taken(denied: object) -> None:
    found = read(denied_commands=denied)
    assert found.job is None
    assert "its options are not understood: " in found.notes[0]


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (
            {"kind": "cron", "expr": "0 9 * * *", "display": "every day at 9:00"},
            "every day at 9:00",
        ),
        ({"kind": "cron", "expr": "0 7 * * *", "display": "every day at 9:00"}, "0 7 * * *"),
        ({"kind": "cron", "expr": "0 9 * * *", "display": "mornings"}, "0 9 * * *"),
        ({"kind": "interval", "minutes": 120, "display": "every 2h"}, "every 2h"),
        ({"kind": "interval", "minutes": 90, "display": "every 2h"}, "every 90m"),
        ({"kind": "once", "run_at": "2026-01-01T02:00Z", "display": "in 2 hours"}, "in 2 hours"),
    ],
)
def test_what_is_shown_of_a_schedule_counts_only_where_it_means_that(
    schedule: dict[str, Any], text: str
) -> None:
    job = {"name": "news", "prompt": "look", "schedule": schedule, "options": {}}
    (found,) = read_document(json.dumps([job]).encode(), READING)
    assert found.job is not None
    assert found.job.spec.schedule == text
