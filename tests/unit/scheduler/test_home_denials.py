"""What is denied to a job's runs, as a file of jobs has it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler_service.home.jobs import Reading, ReadJob, read_document

READING = Reading("default", "UTC", datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1), {})


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
    assert 'its "denied_commands" ' in found.notes[0]
