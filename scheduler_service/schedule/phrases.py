"""Schedules in plain words: durations, moments and recurrences; pure functions.

Reads everyday phrases only; on an error, models use one of these or a crontab expression.
"""

import re
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

from scheduler_service.schedule.crontab import instant_of

_UNITS = {
    unit: seconds
    for units, seconds in (
        ("s sec secs second seconds", 1),
        ("m min mins minute minutes", 60),
        ("h hr hrs hour hours", 3600),
        ("d day days", 86_400),
        ("w week weeks", 604_800),
    )
    for unit in units.split()
}
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS = {name: day[:3] for day in _WEEK for name in (day, day[:3])}
_DAYS = _WEEKDAYS | {"day": "*", "weekday": "mon-fri", "weekend": "sat,sun"}
_OFTEN = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
_DAY = timedelta(days=1)

_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?|an?(?= )) ?([a-z]+)")
_LENGTH = re.compile(rf"(?:{_AMOUNT.pattern} ?)+")
_TIME = r"(?:noon|midnight|\d{1,2}(?:[:.]\d{2})? ?(?:[ap]\.?m\.?)?)(?![\w:])"
_CLOCK = re.compile(r"(\d{1,2})(?:[:.](\d{2}))? ?([ap])?[.m]*")
_TIMES = rf"(?P<times>{_TIME}(?:(?:,? and |, ?)(?:at )?{_TIME})*)"
_DAYS_AT = re.compile(rf"(?P<days>.+?),? (?:at )?{_TIMES}")
_AT_DAYS = re.compile(rf"(?:at )?{_TIMES},? (?P<days>.+)")
_AT = re.compile(rf"(?:at )?{_TIMES}")
_AND = re.compile(r",? and |, ?")


def length(words: str) -> timedelta | None:
    """Parse a duration such as `1h30m` or `2 hours and 5 minutes`; None if there are no units."""
    joined = _AND.sub(" ", words)
    if not _LENGTH.fullmatch(joined):
        return None
    seconds = Fraction(0)
    for count, unit in _AMOUNT.findall(joined):
        if unit not in _UNITS:
            raise ValueError(
                f'"{unit}" is not a unit of time such as minutes, hours, days or weeks'
            )
        seconds += (1 if count[0] == "a" else Fraction(count)) * _UNITS[unit]
    if seconds == 0:
        raise ValueError("it takes no time")
    return timedelta(seconds=int(seconds))


def is_recurring(words: str) -> bool:
    """Return whether words describe a recurrence."""
    often = re.search(r"\b(?:every|each|hourly|daily|weekly|monthly|[a-z]+days|weekends)\b", words)
    return often is not None


def recurrence(words: str) -> timedelta | str:
    """Parse a recurrence into an interval or a crontab expression."""
    plain = re.sub(r"\b(?:every|each) |^on (?=[a-z]+days)", "", words)
    plain = " ".join(_OFTEN.get(word, word) for word in plain.split(" "))
    every = length(f"1 {plain}" if plain in _UNITS else plain)
    if every is not None:
        return every
    match = _DAYS_AT.fullmatch(plain) or _AT_DAYS.fullmatch(plain)
    days = _weekdays(re.sub(r"^on ", "", match["days"]) if match else plain)
    if match is None:
        raise ValueError(f'it does not say at what time; say it, such as "every {plain} at 9:00"')
    times = [time_of_day(each) for each in _AND.split(match["times"].replace("at ", ""))]
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise ValueError(
            "several times of one job are at the same minute of the hour, such as "
            '"every day at 9:30 and 17:30"; make a job for each of the others'
        )
    hours = ",".join(str(hour) for hour, _ in times)
    return f"{minutes.pop()} {hours} * * {days}"


def moment(words: str, zone: ZoneInfo, now: datetime) -> datetime | None:
    """Return the instant that words such as `tomorrow 8am` mean at `now`; None if there is none."""
    if (alone := _AT.fullmatch(words)) is not None and not words.isdecimal():
        day, at = "", alone["times"]
    elif (match := _DAYS_AT.fullmatch(words) or _AT_DAYS.fullmatch(words)) is not None:
        day, at = match["days"], match["times"]
    else:
        if _date(words, now.date()) is not None:
            raise ValueError('it does not say at what time; say it, such as "tomorrow at 9:00"')
        return None
    today = now.astimezone(zone).date()
    found = _date(day, today) if day else today
    if found is None:
        return None
    wall = time(*time_of_day(at))
    instant = instant_of(datetime.combine(found, wall), zone)
    if instant <= now and (not day or day.rpartition(" ")[2] in _WEEKDAYS):
        # The next time that a clock shows this.
        found += 7 * _DAY if day else _DAY
        instant = instant_of(datetime.combine(found, wall), zone)
    return instant


def time_of_day(text: str) -> tuple[int, int]:
    """Parse a time of day such as `9:00`, `8am` or `noon` into hour and minute."""
    if text in ("noon", "midnight"):
        return (12 if text == "noon" else 0), 0
    found = _CLOCK.fullmatch(text.strip())
    if found is not None:
        hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
        if minute <= 59 and (1 <= hour <= 12 if half else hour <= 23):
            return (hour % 12 + (12 if half == "p" else 0) if half else hour), minute
    raise ValueError(f'"{text}" is not a time of day such as 9:00, 17:30 or 8am')


def _date(text: str, today: date) -> date | None:
    text = re.sub(r"^on ", "", text)
    if text in ("today", "tomorrow"):
        return today + (_DAY if text == "tomorrow" else timedelta())
    which, _, name = text.rpartition(" ")
    if name in _WEEKDAYS and which in ("", "this", "next"):
        number = next(at for at, day in enumerate(_WEEK) if day.startswith(name))
        ahead = (number - today.weekday()) % 7
        return today + (ahead or (7 if which == "next" else 0)) * _DAY
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f'"{text}": there is no such date') from None


def _weekdays(text: str) -> str:
    """Return the weekdays of a crontab expression for days such as `monday and friday`."""
    if text.startswith(("week ", "month")) or text == "week":
        raise ValueError(
            'it does not say on which weekdays; say it, such as "every monday at 9:00", or use a '
            'crontab expression, such as "0 9 1 * *" for the first of each month'
        )
    if length(text) is not None:
        raise ValueError(
            f'"{text}" counts from now and has no time of day; say "every {text}", or name the '
            'days, such as "every weekday at 9:00"'
        )
    days = [part.removesuffix("s") for part in _AND.split(text)]
    if unknown := [day for day in days if day not in _DAYS]:
        raise ValueError(f'"{unknown[0]}" is neither a day nor a length of time')
    found = dict.fromkeys(_DAYS[day] for day in days)
    return "*" if "*" in found else ",".join(found)
