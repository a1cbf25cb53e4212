"""When turns start: spread by the jitter, and later after each failure."""

from datetime import UTC, datetime, timedelta

from scheduler_service.options import JobOptions, first_start, retry_at

NINE = datetime(2026, 11, 27, 9, tzinfo=UTC)
HOUR_S = 3600


def test_each_retry_waits_twice_as_long_as_the_one_before_and_at_most_a_day() -> None:
    options = JobOptions(max_retries=10, retry_backoff=timedelta(seconds=600))
    found = [retry_at(attempt, NINE, options) for attempt in range(1, 12)]
    waits = [at and at - NINE for at in found]
    assert waits == [
        *(timedelta(minutes=10 * factor) for factor in (1, 2, 4, 8, 16, 32, 64, 128)),
        *(timedelta(days=1), timedelta(days=1), None),
    ]


def test_a_job_that_asks_for_none_is_not_tried_again() -> None:
    assert retry_at(1, NINE, JobOptions()) is None


def test_jobs_that_are_due_together_start_spread_over_the_jitter() -> None:
    options = JobOptions(jitter=timedelta(hours=1))
    starts = [first_start(f"job_{number}", NINE, options) for number in range(400)]
    delays = [(at - NINE).total_seconds() for at in starts if at is not None]
    assert len(set(delays)) == len(starts)
    assert all(0 <= delay < HOUR_S for delay in delays)
    quarters = [sum(delay // (HOUR_S / 4) == quarter for delay in delays) for quarter in range(4)]
    assert min(quarters) > 60


def test_a_due_time_has_the_same_start_for_every_scheduler_and_the_next_one_another() -> None:
    options = JobOptions(jitter=timedelta(hours=1))
    first, again, later = (
        first_start("news", at, options) for at in (NINE, NINE, NINE + timedelta(days=1))
    )
    assert first == again
    assert first is not None
    assert later is not None
    assert later - first != timedelta(days=1)
    assert first_start("news", NINE, JobOptions()) is None
