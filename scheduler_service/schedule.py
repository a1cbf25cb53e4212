"""Schedules: read from what a person wrote, and when one fires next; pure functions."""

import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from scheduler_service import crontab
from scheduler_service.errors import ScheduleError
from scheduler_service.wallclock import instant_of

Kind = Literal["once", "interval", "cron"]

_MAX_TEXT_CHARS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_SHORTEST_INTERVAL = timedelta(minutes=1)
_FURTHEST = timedelta(days=3660)

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_UNITS = {
    unit: seconds
    for units, seconds in (
        ("s sec secs second seconds", 1),
        ("m min mins minute minutes", 60),
        ("h hr hrs hour hours", 3600),
        ("d day days", 86400),
        ("w week weeks", 604800),
    )
    for unit in units.split()
}
_DAYS = {
    word: days
    for words, days in (
        ("day days", "*"),
        ("weekday weekdays", "mon-fri"),
        ("weekend weekends", "sat,sun"),
        ("monday mondays mon", "mon"),
        ("tuesday tuesdays tue tues", "tue"),
        ("wednesday wednesdays wed", "wed"),
        ("thursday thursdays thu thur thurs", "thu"),
        ("friday fridays fri", "fri"),
        ("saturday saturdays sat", "sat"),
        ("sunday sundays sun", "sun"),
    )
    for word in words.split()
}
_COUNTED_UNIT = re.compile(r"(\d{1,9}) ?([a-z]+)")
_LENGTH = re.compile(r"(?:\d{1,9} ?[a-z]+ ?)+")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))? ?(am|pm)?")
_DAYS_AND_TIME = re.compile(rf"(?P<days>.+?)(?: at)? (?P<time>noon|midnight|{_CLOCK.pattern})")


class Once(Struct, frozen=True):
    """One firing at an instant."""

    kind: ClassVar[Kind] = "once"
    at: datetime


class Interval(Struct, frozen=True):
    """A firing at every multiple of `every` after `anchor`, so that lateness never adds up."""

    kind: ClassVar[Kind] = "interval"
    every: timedelta
    anchor: datetime


class Cron(Struct, frozen=True):
    """Firings at the wall times of a time zone that a five-field crontab expression names."""

    kind: ClassVar[Kind] = "cron"
    expression: str
    zone: str


Schedule = Once | Interval | Cron


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """The first firing later than `after`, in UTC and on a whole second; None if there is none."""
    after = after.astimezone(UTC)
    match schedule:
        case Once(at):
            return at if at > after else None
        case Interval():
            return _next_multiple(schedule, after)
        case Cron(expression, zone):
            return crontab.next_firing(expression, ZoneInfo(zone), after)


def _next_multiple(interval: Interval, after: datetime) -> datetime | None:
    from apscheduler.triggers.interval import IntervalTrigger

    trigger = IntervalTrigger(
        seconds=interval.every // _SECOND, start_date=interval.anchor + interval.every, timezone=UTC
    )
    # The trigger counts in floating-point seconds, which are exact as long as they are whole.
    return trigger.get_next_fire_time(None, after.replace(microsecond=0) + _SECOND)


def parse(text: str, zone: str, now: datetime) -> Schedule:
    """Read what somebody wrote at `now` whose wall clock shows `zone`; raises ScheduleError.

    Once: `30m`, `in 2 hours`, `2026-03-01T09:00`. Interval: `every 2h`, `every 30 minutes`.
    Cron: `every day at 9:00`, `every weekday 8am`, `every monday and friday at 18:30`, five
    crontab fields with names, `@daily` and its like.
    """
    if len(text) > _MAX_TEXT_CHARS:
        raise ScheduleError(text, f"it is longer than {_MAX_TEXT_CHARS} characters")
    # Schedules count in whole seconds, and nothing may come too early.
    now = -(-(now - _EPOCH) // _SECOND) * _SECOND + _EPOCH
    try:
        schedule = _read(" ".join(text.lower().split()), zone, now)
        first = next_after(schedule, now)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(text, str(error)) from error
    if first is None:
        past = schedule.kind == "once"
        raise ScheduleError(text, "that is in the past" if past else "there is no such date")
    if first - now > _FURTHEST:
        raise ScheduleError(text, "that is more than ten years away")
    return schedule


def check_zone(name: str) -> str:
    """Return the name of a time zone if there is one; raises ValueError."""
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f'"{name}" is not a time zone such as "Europe/Berlin"') from error
    return name


def _read(words: str, zone: str, now: datetime) -> Schedule:
    check_zone(zone)
    if words.startswith("@"):
        return Cron(_macro(words), zone)
    if words.startswith("every "):
        return _every(words.removeprefix("every "), zone, now)
    if crontab.looks_like_one(words):
        return Cron(words, zone)
    if at := _timestamp(words, zone):
        return Once(at)
    if delay := _length(words.removeprefix("in ")):
        return Once(now + delay)
    raise ValueError("it is no delay, interval, crontab expression or ISO timestamp")


def _macro(word: str) -> str:
    if word not in _MACROS:
        raise ValueError(f'"{word}" is none of {", ".join(_MACROS)}')
    return _MACROS[word]


def _every(words: str, zone: str, now: datetime) -> Schedule:
    length = _length(f"1 {words}" if words in _UNITS else words)
    if length is None:
        return Cron(_days_and_time(words), zone)
    if length < _SHORTEST_INTERVAL:
        raise ValueError("an interval lasts a minute or more")
    return Interval(length, anchor=now)


def _days_and_time(words: str) -> str:
    """A crontab expression for words such as `weekday at 9:00` or `monday and friday 8am`."""
    match = _DAYS_AND_TIME.fullmatch(words)
    days = [_day(word) for word in re.split(r",? and |, ?| ", match["days"] if match else words)]
    if match is None:
        raise ValueError("it does not say at what time")
    hour, minute = _time_of_day(match["time"])
    return f"{minute} {hour} * * {'*' if '*' in days else ','.join(days)}"


def _day(word: str) -> str:
    if word not in _DAYS:
        raise ValueError(f'"{word}" is neither a day nor a length of time')
    return _DAYS[word]


def _time_of_day(text: str) -> tuple[int, int]:
    match = _CLOCK.fullmatch({"noon": "12:00", "midnight": "0:00"}.get(text, text))
    assert match is not None
    hour, minute, half = int(match[1]), int(match[2] or 0), match[3]
    valid = 1 <= hour <= 12 if half else hour <= 23
    if not valid or minute > 59:
        raise ValueError(f'"{text}" is not a time of day')
    return (hour % 12 + (12 if half == "pm" else 0) if half else hour), minute


def _length(words: str) -> timedelta | None:
    """The sum of units such as `1h30m` or `2 hours and 5 minutes`; None if there are none."""
    joined = re.sub(r",? and |, ", " ", re.sub(r"^an? ", "1 ", words))
    if not _LENGTH.fullmatch(joined):
        return None
    seconds = 0
    for count, unit in _COUNTED_UNIT.findall(joined):
        if unit not in _UNITS:
            raise ValueError(f'"{unit}" is not a unit of time')
        seconds += int(count) * _UNITS[unit]
    if seconds == 0:
        raise ValueError("it takes no time")
    return timedelta(seconds=seconds)


def _timestamp(words: str, zone: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(words.upper()).replace(microsecond=0)
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo else instant_of(at, ZoneInfo(zone))
