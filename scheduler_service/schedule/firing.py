"""What happens at a job's due time, and to due times that nobody was awake for; pure functions."""

from datetime import datetime, timedelta

from msgspec import Struct

from scheduler_service.options import JobOptions, Missed
from scheduler_service.schedule.schedule import Once, Schedule, next_after

TOLERANCE = timedelta(seconds=15)
"""What is late by less is not missed: a scheduler takes over from one that died in this time."""

_SECOND = timedelta(seconds=1)


class Firing(Struct, frozen=True):
    """What to do for a job that is due."""

    run_for: datetime | None
    """The due time that gets a run; None if it is too late for any."""
    next_run_at: datetime | None
    """The job's next due time, which may have passed, too; None if there is none."""
    missed: bool
    """Whether a due time gets no run of its own."""


def fire(
    schedule: Schedule,
    due: datetime,
    now: datetime,
    options: JobOptions,
    grace: timedelta,
    run_count: int = 0,
) -> Firing:
    """Decide about a job that was due at `due`, which is not after `now`, and has run so often.

    Due times are made up for within `grace`; what runs only once is however late that is, unless
    its options say how late it may be.
    """
    match options.missed_run_policy:
        case Missed.ONCE:
            if options.missed_run_grace is not None:
                grace = options.missed_run_grace
            elif isinstance(schedule, Once):
                grace = timedelta.max
            firing = _latest_only(schedule, due, now, grace)
        case Missed.SKIP:
            firing = _latest_only(schedule, due, now, TOLERANCE)
        case Missed.ALL:
            firing = _one_of_all(schedule, due, now, options.max_missed_runs)
    if options.max_runs and run_count + 1 == options.max_runs and firing.run_for is not None:
        return Firing(firing.run_for, None, firing.missed)
    return firing


def _latest_only(schedule: Schedule, due: datetime, now: datetime, grace: timedelta) -> Firing:
    """Of several due times that have passed, the latest gets the one run that there is, unless it
    is more than `grace` ago."""
    following = next_after(schedule, due)
    latest = due
    if following is not None and following <= now:
        latest = _latest(schedule, following, now)
        following = next_after(schedule, now)
    too_late = now - latest > grace
    return Firing(None if too_late else latest, following, missed=too_late or latest != due)


def _one_of_all(schedule: Schedule, due: datetime, now: datetime, most: int) -> Firing:
    """The earliest of the latest `most` due times that have passed; the others follow it."""
    passed, following = [due], next_after(schedule, due)
    while following is not None and following <= now and len(passed) <= most:
        passed.append(following)
        following = next_after(schedule, following)
    if len(passed) <= most:
        return Firing(due, next_after(schedule, due), missed=False)
    first = _latest(schedule, passed[1], now)
    for _ in range(most - 1):
        first = _latest(schedule, passed[1], first - _SECOND)
    return Firing(first, next_after(schedule, first), missed=True)


def _latest(schedule: Schedule, known: datetime, until: datetime) -> datetime:
    """The last firing up to a time, by bisection: counting up a year of minutes takes too long."""
    # A firing is later than `low` and not after `until`; none is later than `high`.
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
