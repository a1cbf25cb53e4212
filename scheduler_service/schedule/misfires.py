"""Decides what happens at due times, including missed ones; pure functions."""

from datetime import datetime, timedelta

from msgspec import Struct

from scheduler_service.options import JobOptions, MissedRunPolicy
from scheduler_service.schedule.schedule import Once, Schedule, next_after

TOLERANCE = timedelta(seconds=15)
"""A shorter delay is not a miss: another scheduler takes over within this time."""

_SECOND = timedelta(seconds=1)


class DueAction(Struct, frozen=True):
    """What to do for a due job."""

    run_for: datetime | None
    """The due time that gets a run; None if all are too late."""
    next_run_at: datetime | None
    """The next due time, which may also have passed; None if there is none."""
    missed: bool
    """Whether a due time gets no run of its own."""


def fire(
    schedule: Schedule,
    due: datetime,
    now: datetime,
    options: JobOptions,
    grace: timedelta,
    run_count: int = 0,
) -> DueAction:
    """Decide about a job that was due at `due`, which is not after `now`.

    Missed due times are made up for within `grace`. A job that runs once is made up for however
    late, unless its options limit that.
    """
    match options.missed_run_policy:
        case MissedRunPolicy.ONCE:
            if options.missed_run_grace is not None:
                grace = options.missed_run_grace
            elif isinstance(schedule, Once):
                grace = timedelta.max
            firing = _latest_only(schedule, due, now, grace)
        case MissedRunPolicy.SKIP:
            firing = _latest_only(schedule, due, now, TOLERANCE)
        case MissedRunPolicy.ALL:
            firing = _one_of_all(schedule, due, now, options.max_missed_runs)
    if options.max_runs and run_count + 1 == options.max_runs and firing.run_for is not None:
        return DueAction(firing.run_for, None, firing.missed)
    return firing


def _latest_only(schedule: Schedule, due: datetime, now: datetime, grace: timedelta) -> DueAction:
    """Run once for the latest missed due time, unless it is more than `grace` ago."""
    following = next_after(schedule, due)
    latest = due
    if following is not None and following <= now:
        latest = _latest(schedule, following, now)
        following = next_after(schedule, now)
    too_late = now - latest > grace
    return DueAction(None if too_late else latest, following, missed=too_late or latest != due)


def _one_of_all(schedule: Schedule, due: datetime, now: datetime, most: int) -> DueAction:
    """Run for the earliest of the latest `most` missed due times; the others follow."""
    passed, following = [due], next_after(schedule, due)
    while following is not None and following <= now and len(passed) <= most:
        passed.append(following)
        following = next_after(schedule, following)
    if len(passed) <= most:
        return DueAction(due, next_after(schedule, due), missed=False)
    first = _latest(schedule, passed[1], now)
    for _ in range(most - 1):
        first = _latest(schedule, passed[1], first - _SECOND)
    return DueAction(first, next_after(schedule, first), missed=True)


def _latest(schedule: Schedule, known: datetime, until: datetime) -> datetime:
    """Find the last firing up to `until` by bisection; stepping through a year of minutes is
    slow."""
    # Invariant: a firing is in (low, high], and none is after `high`.
    low, high = known - _SECOND, until
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        following = next_after(schedule, middle)
        if following is not None and following <= until:
            low = middle
        else:
            high = middle
    found = next_after(schedule, low)
    assert found is not None
    return found
