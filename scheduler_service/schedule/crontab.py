"""Crontab expressions in a time zone: parsing and next firing; pure functions.

APScheduler's CronTrigger finds the matching wall times. This module adds Sunday as 0 or 7, the
crontab rule that a day matches if *either* its day of month or weekday matches when both are
restricted, and daylight saving:
- a wall time that the zone skips fires at the end of the gap;
- a wall time that the zone repeats fires the first time only;
- an hour field of `*` stands for every hour that passes, so it fires in both passes.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from msgspec import Struct

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(?:(\*)|([a-z]+|\d+)(?:-([a-z]+|\d+))?)(?:/(\d{1,2}))?")
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# February 29 can be eight years away (2096 to 2104), nothing is further.
_HORIZON = timedelta(days=9 * 366)


class _Field(Struct, frozen=True):
    label: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _WEEKDAYS),
)


def looks_like_one(text: str) -> bool:
    """Return whether a text looks like a crontab expression: five fields, the first two times."""
    fields = text.split()
    return len(fields) == len(_FIELDS) and all(each[0] in "*0123456789" for each in fields[:2])


def next_firing(expression: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first firing after `after`, in UTC; ValueError names the wrong field."""
    wall = after.astimezone(zone).replace(tzinfo=None)
    triggers = _triggers(expression, until=wall + _HORIZON)
    found = _next_wall(triggers, wall)
    while found is not None and instant_of(found, zone) <= after:
        found = _next_wall(triggers, found)
    if found is None:
        return None
    first = instant_of(found, zone)
    if expression.split()[1] != "*":
        return first
    return _second_pass(triggers, zone, after, first)


def _second_pass(
    triggers: "list[CronTrigger]", zone: ZoneInfo, after: datetime, first: datetime
) -> datetime:
    """Return the firing in the second pass of a repeated hour, else `first`."""
    start = after.astimezone(UTC)
    # Day by day, as `first` may lie behind further changes of the offset.
    while start < first:
        end = min(start + _DAY, first)
        offset = offset_at(end, zone)
        if start <= after or offset != offset_at(start, zone):
            wall = _next_wall(triggers, start.replace(tzinfo=None) + offset)
            while wall is not None and (at := (wall - offset).replace(tzinfo=UTC)) <= end:
                if at < first and offset_at(at, zone) == offset:
                    return at
                wall = _next_wall(triggers, wall)
        start = end
    return first


def _next_wall(triggers: "list[CronTrigger]", wall: datetime) -> datetime | None:
    start = wall.replace(microsecond=0, tzinfo=UTC) + _SECOND
    fires: list[datetime | None] = [each.get_next_fire_time(None, start) for each in triggers]
    return min((at.replace(tzinfo=None) for at in fires if at), default=None)


def _triggers(expression: str, until: datetime) -> "list[CronTrigger]":
    from apscheduler.triggers.cron import CronTrigger

    texts = expression.split()
    minute, hour, day, month, weekday = map(_listed, _FIELDS, texts)
    either = not texts[2].startswith("*") and not texts[4].startswith("*")
    return [
        CronTrigger(
            minute=minute,
            hour=hour,
            day=days,
            month=month,
            day_of_week=weekdays,
            timezone=UTC,
            end_date=until.replace(tzinfo=UTC),
        )
        for days, weekdays in ([(day, "*"), ("*", weekday)] if either else [(day, weekday)])
    ]


def _listed(field: _Field, text: str) -> str:
    """Convert a field for CronTrigger: numbers only, and weeks begin on Monday."""
    if text == "*":
        return text
    numbers = {number for part in text.split(",") for number in _numbers(field, part)}
    if field.names is _WEEKDAYS:
        numbers = {(number - 1) % 7 for number in numbers}
    return ",".join(map(str, sorted(numbers)))


def _numbers(field: _Field, part: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f'"{part}" is not a {field.label}')
    star, start, end, step = match.groups()
    first = field.lowest if star else _number(field, start)
    last = field.highest if star or (step and not end) else _number(field, end or start)
    if last < first and field.names is _WEEKDAYS:
        last += 7
    if last < first:
        whole = f"{start}-{field.highest},{field.lowest}-{end}"
        raise ValueError(
            f'the {field.label} range "{part}" ends before it begins; write it as "{whole}"'
        )
    if step and not 1 <= int(step) <= field.highest:
        raise ValueError(f'the step of the {field.label} "{part}" is out of range')
    return range(first, last + 1, int(step or 1))


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.lowest
    if not text.isdecimal():
        raise ValueError(f'"{text}" is not a {field.label}')
    if not field.lowest <= int(text) <= field.highest:
        raise ValueError(f'the {field.label} "{text}" is outside {field.lowest}-{field.highest}')
    return int(text)


def offset_at(at: datetime, zone: ZoneInfo) -> timedelta:
    """Return the UTC offset of the zone at an instant."""
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the UTC instant of a naive wall time: the first of two, or the end of a gap."""
    at = wall.replace(tzinfo=zone).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return at
    # In a gap, the later offset yields an instant before it and the earlier one an instant after.
    before, beyond = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), at
    offset = offset_at(beyond, zone)
    while beyond - before > _SECOND:
        middle = before + (beyond - before) // 2
        if offset_at(middle, zone) == offset:
            beyond = middle
        else:
            before = middle
    return beyond.replace(microsecond=0)
