"""What happens at a job's due time, and to due times that nobody was awake for; pure functions."""

from datetime import datetime, timedelta

from msgspec import Struct

from scheduler_service.schedule import Once, Schedule, next_after

_SECOND = timedelta(seconds=1)


class Firing(Struct, frozen=True):
    """What to do for a job that is due."""

    run_for: datetime | None
    """The due time that gets a run; None if it is too late for any."""
    next_run_at: datetime | None
    """The job's next due time; None if there is none."""
    missed: bool
    """Whether a due time gets no run of its own."""


def fire(schedule: Schedule, due: datetime, now: datetime, grace: timedelta) -> Firing:
    """Decide about a job that was due at `due`, which is not after `now`.

    Of several due times that have passed, the latest gets the one run that makes up for them all,
    unless it is more than `grace` ago. A schedule that fires only once is made up for in any case.
    """
    following = next_after(schedule, due)
    latest = due
    if following is not None and following <= now:
        latest = _latest(schedule, following, now)
        following = next_after(schedule, now)
    too_late = now - latest > grace and not isinstance(schedule, Once)
    return Firing(None if too_late else latest, following, missed=too_late or latest != due)


def _latest(schedule: Schedule, known: datetime, now: datetime) -> datetime:
    """The last firing up to `now`, by bisection: counting up a year of minutes takes too long."""
    # A firing is later than `low` and not after `now`; none is later than `high`.
    low, high = known - _SECOND, now
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        following = next_after(schedule, middle)
        if following is not None and following <= now:
            low = middle
        else:
            high = middle
    found = next_after(schedule, low)
    assert found is not None
    return found
