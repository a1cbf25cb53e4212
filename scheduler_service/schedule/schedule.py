"""Schedules: parsing and next firing; pure functions."""

import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct

from scheduler_service.errors import ScheduleError
from scheduler_service.schedule import crontab
from scheduler_service.schedule.crontab import instant_of
from scheduler_service.schedule.phrases import is_recurring, length, moment, recurrence

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
_ZONE_LAST = re.compile(
    r"(.+?),?\s+(?:in\s+|time\s?zone\s+)?\(?([a-z]{2,}(?:/[a-z0-9_+-]+)+|utc|gmt)\)?(?:\s+time)?",
    re.IGNORECASE | re.DOTALL,
)
_NOTHING = (
    "it is no delay, interval, crontab expression of five fields or ISO timestamp, and no words "
    "that say when"
)


class Once(Struct, frozen=True, tag="once"):
    """One firing at an instant."""

    kind: ClassVar[Kind] = "once"
    at: datetime


class Interval(Struct, frozen=True, tag="interval"):
    """A firing at every multiple of `every` after `anchor`, so that delays never add up."""

    kind: ClassVar[Kind] = "interval"
    every: timedelta
    anchor: datetime


class Cron(Struct, frozen=True, tag="cron"):
    """Firings at the wall times of a five-field crontab expression in a time zone."""

    kind: ClassVar[Kind] = "cron"
    expression: str
    zone: str


Schedule = Once | Interval | Cron


def next_after(schedule: Schedule, after: datetime) -> datetime | None:
    """Return the first firing after `after`, in UTC and whole seconds; None if there is none."""
    after = after.astimezone(UTC)
    match schedule:
        case Once(at):
            return at if at > after else None
        case Interval(every, anchor):
            return anchor + max(1, (after - anchor) // every + 1) * every
        case Cron(expression, zone):
            return crontab.next_firing(expression, ZoneInfo(zone), after)


def parse(text: str, zone: str, now: datetime) -> Schedule:
    """Parse a schedule written at `now` in `zone`; raises ScheduleError.

    Once: `30m`, `in 2 hours`, `tomorrow at 9:00`, `2026-03-01T09:00`. Interval: `every 2h`, `every
    30 minutes`. Cron: `every day at 9:00`, `every weekday 8am`, five crontab fields with names,
    `@daily` and the like. A zone in the text wins, as in `every day at 9:00 Asia/Tokyo`.
    """
    if len(text) > _MAX_TEXT_CHARS:
        raise ScheduleError(text, f"it is longer than {_MAX_TEXT_CHARS} characters")
    # Schedules count in whole seconds; round up, as nothing may fire early.
    now = -(-(now - _EPOCH) // _SECOND) * _SECOND + _EPOCH
    try:
        words, zone = _zoned(text, zone)
        schedule = _read(_plain(words), zone, now)
        first = next_after(schedule, now)
    except OverflowError as error:
        raise ScheduleError(text, "that is too far away") from error
    except ValueError as error:
        raise ScheduleError(text, str(error)) from error
    if first is None:
        past = schedule.kind == "once"
        raise ScheduleError(text, "that is in the past" if past else "there is no such date")
    if first - now > _FURTHEST:
        raise ScheduleError(text, "that is more than ten years away")
    return schedule


def check_zone(name: str) -> str:
    """Return the name of a time zone; raises ValueError if there is none."""
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f'"{name}" is not a time zone such as "Europe/Berlin"') from error
    return name


def zone_of(text: str, zone: str) -> str:
    """Return the time zone of a schedule that was written in `zone`."""
    try:
        return _zoned(text, zone)[1]
    except ValueError as error:
        raise ScheduleError(text, str(error)) from error


def in_zone(schedule: Schedule, text: str, zone: str) -> Schedule:
    """Move a schedule to another zone; intervals stay. Raises ScheduleError if it runs once, or
    the text names its own zone."""
    if zone_of(text, ""):
        raise ScheduleError(text, "it names its time zone itself; give it a new schedule instead")
    try:
        check_zone(zone)
    except ValueError as error:
        raise ScheduleError(text, str(error)) from error
    if isinstance(schedule, Once):
        raise ScheduleError(text, f"it runs once; give it a new schedule in {zone} instead")
    return Cron(schedule.expression, zone) if isinstance(schedule, Cron) else schedule


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".!")


def _zoned(text: str, zone: str) -> tuple[str, str]:
    if crontab.looks_like_one(text.lower()):
        return text, zone
    if (last := _ZONE_LAST.fullmatch(text.strip())) is not None:
        return last[1], "UTC" if last[2].upper() in ("UTC", "GMT") else check_zone(last[2])
    return text, zone


def _read(words: str, zone: str, now: datetime) -> Schedule:
    check_zone(zone)
    if words.startswith("@") and not words.startswith("@every "):
        return Cron(_macro(words), zone)
    if crontab.looks_like_one(words):
        return Cron(words, zone)
    if at := _timestamp(words, zone):
        return Once(at)
    words = words.removeprefix("@")
    if is_recurring(words):
        return _every(words, zone, now)
    if at := moment(words, ZoneInfo(zone), now):
        return Once(at)
    if delay := length(re.sub(r"^(?:in|after) ", "", words).removesuffix(" from now")):
        return Once(now + delay)
    raise ValueError(_NOTHING)


def _macro(word: str) -> str:
    if word not in _MACROS:
        raise ValueError(f'"{word}" is none of {", ".join(_MACROS)}')
    return _MACROS[word]


def _every(words: str, zone: str, now: datetime) -> Schedule:
    every = recurrence(words)
    if isinstance(every, str):
        return Cron(every, zone)
    if every < _SHORTEST_INTERVAL:
        raise ValueError("an interval lasts a minute or more")
    return Interval(every, anchor=now)


def _timestamp(words: str, zone: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(words.upper()).replace(microsecond=0)
    except ValueError:
        return None
    return at.astimezone(UTC) if at.tzinfo else instant_of(at, ZoneInfo(zone))
