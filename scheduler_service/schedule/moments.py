"""One moment, as people say it: `tomorrow at 9:00`, `next friday 5pm`; pure functions."""

import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from scheduler_service.schedule.crontab import instant_of
from scheduler_service.schedule.phrases import DAYS, HALVES, MONTHS
from scheduler_service.schedule.times import TIME, length, time_of_day

_DAY = timedelta(days=1)
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PART = r"(?:morning|afternoon|evening|night)"
_AT = re.compile(
    rf"(?P<day>.*?),? ?(?:\bat )?(?P<time>{TIME})(?: (?:in the |at )?(?P<part>{_PART}))?"
)
_TIME_FIRST = re.compile(rf"(?:at )?(?P<time>{TIME}),? (?:on )?(?P<day>[a-z\d].*)")
_PART_ONLY = re.compile(rf"(?P<day>.+?) (?:in the |at )?(?P<part>{_PART})")
_HALF = re.compile(r" ?\b(?:in the )?(morning|afternoon|evening|night)$")
_TWO_TIMES = re.compile(
    rf"(?P<day>.*?),? ?(?:\bat )?(?P<first>{TIME}),? (?:at )?(?P<time>noon|midday|midnight)"
)
_ISO_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_SLASHED = re.compile(r"\b\d{1,4}/\d{1,2}(?:/\d{1,4})?\b")
_DAWN = (6, 0)
_NO_TIME = 'it does not say at what time; say it, such as "tomorrow at 9:00"'


def moment(words: str, zone: str, now: datetime) -> datetime | None:
    """The instant that words mean at `now` by the clock of a zone; None if they mean none."""
    if _SLASHED.search(words):
        raise ValueError('a date is written as in "2027-03-01 9:00", not with slashes')
    if words.isdecimal():
        return None
    today = now.astimezone(ZoneInfo(zone)).date()
    words = re.sub(r"^(?:on|at) (?=\S)", "", words.replace("tonight", "today night"))
    words = re.sub(r"^(?:the )", "", words)
    later = timedelta()
    if (match := _PART_ONLY.fullmatch(words)) is not None and _is_day(match["day"]):
        day, at = match["day"], time_of_day(match["part"])
    elif (match := _AT.fullmatch(words)) is not None and _is_day(_HALF.sub("", match["day"])):
        day, at, later = _with_half(match["day"], match["time"], match["part"] or "")
    elif (match := _TIME_FIRST.fullmatch(words)) is not None and _is_day(
        _HALF.sub("", match["day"])
    ):
        day, at, later = _with_half(match["day"], match["time"], "")
    elif (match := _TWO_TIMES.fullmatch(words)) is not None and _is_day(match["day"]):
        if not match["first"].startswith("12"):
            raise ValueError(
                f'it names two times, "{match["first"]}" and "{match["time"]}"; say one'
            )
        day, at, later = _with_half(match["day"], match["time"], "")
    else:
        if words and not words.startswith("in ") and _is_day(words):
            raise ValueError(_NO_TIME)
        return None
    return _placed(day, at, zone, now, today, later)


def _with_half(day: str, text: str, part: str) -> tuple[str, tuple[int, int], timedelta]:
    """A day without the part of it that says which half a time is in, the time, and how much later
    the day is that it falls on: a night goes on after midnight."""
    found = _HALF.search(day)
    if found is not None:
        day, part = day[: found.start()], found[1]
    at = time_of_day(text, HALVES.get(part, ""))
    is_past_midnight = at < _DAWN and part == "night"
    if day == "today" and (is_past_midnight or text == "midnight"):
        # Of the night that comes, or that it is: the next time that a clock shows this.
        return "", at, timedelta()
    return day or ("today" if found else ""), at, _DAY if is_past_midnight else timedelta()


def _placed(
    day: str, at: tuple[int, int], zone: str, now: datetime, today: date, later: timedelta
) -> datetime | None:
    wall = time(*at)
    if not day:
        # The next time that a clock shows this.
        first = instant_of(datetime.combine(today, wall), ZoneInfo(zone))
        return (
            first
            if first > now
            else instant_of(datetime.combine(today + _DAY, wall), ZoneInfo(zone))
        )
    found = _date(day, today)
    if found is None:
        return None
    found += later
    instant = instant_of(datetime.combine(found, wall), ZoneInfo(zone))
    if instant <= now and day in DAYS:
        # Today is the day, but the time has passed.
        instant = instant_of(datetime.combine(found + 7 * _DAY, wall), ZoneInfo(zone))
    if instant <= now and _has_no_year(day):
        next_year = _date(day, today + _DAY)
        assert next_year is not None
        instant = instant_of(datetime.combine(next_year, wall), ZoneInfo(zone))
    return instant


def _is_day(text: str) -> bool:
    return not text or _date(text, date(2000, 1, 1)) is not None


def _date(text: str, today: date) -> date | None:
    """The day that is meant by who says it today."""
    text = re.sub(r"^on |,$", "", text.strip())
    named = {"today": 0, "tomorrow": 1, "the day after tomorrow": 2, "day after tomorrow": 2}
    if text in named:
        return today + named[text] * _DAY
    if (match := re.fullmatch(r"(?:in )?(.+?)(?: from now)?", text)) and text.startswith("in "):
        found = length(match[1])
        return today + found if found and not found % _DAY else None
    word = re.sub(r"^(?:this|next|coming) ", "", text)
    if DAYS.get(word) in _WEEK and not word.endswith("days"):
        ahead = (_WEEK.index(DAYS[word]) - today.weekday()) % 7
        return today + (ahead or (7 if text != word and not text.startswith("this") else 0)) * _DAY
    for pattern, order in ((_ISO_DATE, (0, 1, 2)), (_DOTTED, (2, 1, 0))):
        if match := pattern.fullmatch(text):
            numbers = [int(match.groups()[index]) for index in order]
            return _valid(text, *numbers)
    return _named_date(text, today)


def _named_date(text: str, today: date) -> date | None:
    """Of `march 3`, `3rd of march` and `3 march 2027`; without a year, the next one."""
    words = re.sub(r"\b(?:the|of)\b|,", " ", text).split()
    year = next((int(word) for word in words if re.fullmatch(r"\d{4}", word)), None)
    rest = [word for word in words if not re.fullmatch(r"\d{4}", word)]
    if len(rest) != 2 or not any(word in MONTHS for word in rest):
        return None
    day, month = rest if rest[1] in MONTHS else rest[::-1]
    found = re.fullmatch(r"(\d{1,2})(?:st|nd|rd|th)?", day)
    if found is None:
        return None
    if year is not None:
        return _valid(text, year, MONTHS[month], int(found[1]))
    # The 29th of February is up to eight years away.
    for year in range(today.year, today.year + 9):
        try:
            at = date(year, MONTHS[month], int(found[1]))
        except ValueError:
            continue
        if at >= today:
            return at
    raise ValueError(f'"{text}": there is no such date')


def _valid(text: str, year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise ValueError(f'"{text}": there is no such date') from None


def _has_no_year(day: str) -> bool:
    return any(name in day.split() for name in MONTHS) and not re.search(r"\d{4}", day)
