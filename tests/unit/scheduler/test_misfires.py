"""What a due time comes to when nobody was awake for it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.options import JobOptions, MissedRunPolicy
from scheduler_service.schedule.misfires import DueAction, fire
from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule, next_after

GRACE = timedelta(hours=2)
USUAL = JobOptions()
NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
DAILY = Cron("0 9 * * *", "UTC")
MINUTELY = Cron("* * * * *", "UTC")
HOURLY = Interval(timedelta(hours=1), NINE)


def _days(count: float) -> timedelta:
    return timedelta(days=count)


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        # In time, or late by less than it takes until the next due time.
        (DAILY, NINE, DueAction(NINE, NINE + _days(1), missed=False)),
        (DAILY, NINE + timedelta(seconds=10), DueAction(NINE, NINE + _days(1), missed=False)),
        (DAILY, NINE + GRACE, DueAction(NINE, NINE + _days(1), missed=False)),
        (Once(NINE), NINE, DueAction(NINE, None, missed=False)),
        # Several due times have passed: the latest makes up for all.
        (
            MINUTELY,
            NINE + timedelta(minutes=3, seconds=30),
            DueAction(NINE + timedelta(minutes=3), NINE + timedelta(minutes=4), missed=True),
        ),
        (
            HOURLY,
            NINE + _days(3),
            DueAction(NINE + _days(3), NINE + timedelta(hours=73), missed=True),
        ),
        (DAILY, NINE + _days(3) + GRACE, DueAction(NINE + _days(3), NINE + _days(4), missed=True)),
        # Too late for any.
        (DAILY, NINE + GRACE * 1.1, DueAction(None, NINE + _days(1), missed=True)),
        (DAILY, NINE + _days(3.5), DueAction(None, NINE + _days(4), missed=True)),
    ],
)
def test_fires(schedule: Schedule, now: datetime, expected: DueAction) -> None:
    assert fire(schedule, NINE, now, USUAL, GRACE) == expected


@pytest.mark.parametrize(
    ("policy", "late", "expected"),
    [
        (MissedRunPolicy.SKIP, timedelta(seconds=15), [0]),
        (MissedRunPolicy.SKIP, timedelta(minutes=5, seconds=30), []),
        (MissedRunPolicy.ONCE, timedelta(minutes=5), [5]),
        (MissedRunPolicy.ALL, timedelta(minutes=1), [0, 1]),
        (MissedRunPolicy.ALL, timedelta(minutes=5), [3, 4, 5]),
        (MissedRunPolicy.ALL, _days(1), [1438, 1439, 1440]),
    ],
)
def test_a_policy_says_which_due_times_get_a_run(
    policy: MissedRunPolicy, late: timedelta, expected: list[int]
) -> None:
    now, due, found = NINE + late, NINE, list[int]()
    options = JobOptions(missed_run_policy=policy, max_missed_runs=3)
    while due <= now:
        firing = fire(MINUTELY, due, now, options, GRACE)
        if firing.run_for is not None:
            found.append((firing.run_for - NINE) // timedelta(minutes=1))
        assert firing.next_run_at is not None
        due = firing.next_run_at
    assert found == expected


@pytest.mark.parametrize(
    ("schedule", "own_grace", "late", "runs"),
    [
        (DAILY, None, GRACE * 1.1, False),
        (DAILY, timedelta(hours=3), GRACE * 1.1, True),
        (Once(NINE), None, _days(3000), True),
        (Once(NINE), timedelta(hours=1), timedelta(minutes=59), True),
        (Once(NINE), timedelta(hours=1), timedelta(minutes=61), False),
        (Once(NINE), timedelta(), timedelta(seconds=1), False),
    ],
)
def test_a_job_runs_late_within_its_own_grace_and_once_without_one(
    schedule: Schedule, own_grace: timedelta | None, late: timedelta, runs: bool
) -> None:
    options = JobOptions(missed_run_grace=own_grace)
    firing = fire(schedule, NINE, NINE + late, options, GRACE)
    assert (firing.run_for is not None) == runs


def test_a_due_time_in_the_gap_and_one_after_it_are_one_firing() -> None:
    half_past_two = Cron("30 2 * * *", "Europe/Berlin")
    gap_end = datetime(2026, 3, 29, 1, tzinfo=UTC)
    now, following = gap_end + timedelta(minutes=45), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)
    expected = DueAction(gap_end, following, missed=False)
    assert fire(half_past_two, gap_end, now, USUAL, GRACE) == expected


_SCHEDULES = st.one_of(
    st.sampled_from(
        [
            DAILY,
            MINUTELY,
            Cron("*/7 8-10,22 * * mon-fri", "America/New_York"),
            Cron("30 2 * * *", "Europe/Berlin"),
            Cron("0 0 29 2 *", "UTC"),
        ]
    ),
    st.integers(60, 10**6).map(lambda s: Interval(timedelta(seconds=s), NINE)),
)


@given(_SCHEDULES, st.integers(0, 3 * 86400))
def test_the_run_is_for_the_last_due_time_that_has_passed(schedule: Schedule, late_s: int) -> None:
    due = next_after(schedule, NINE)
    assert due is not None
    now = due + timedelta(seconds=late_s)
    firing = fire(schedule, due, now, USUAL, _days(10_000))
    assert firing.run_for is not None
    assert due <= firing.run_for <= now
    assert firing.next_run_at == next_after(schedule, firing.run_for)
    assert firing.next_run_at is None or firing.next_run_at > now
