"""What people say of days and times that come again, as a crontab expression; pure functions."""

import re
from datetime import timedelta

from scheduler_service.schedule.times import TIME, is_unit, length, time_of_day, times_of_day

DAYS = {
    word: days
    for words, days in (
        ("day days", "*"),
        ("weekday weekdays workday workdays", "mon-fri"),
        ("weekend weekends", "sat,sun"),
        ("monday mondays mon", "mon"),
        ("tuesday tuesdays tue tues", "tue"),
        ("wednesday wednesdays wed weds", "wed"),
        ("thursday thursdays thu thur thurs", "thu"),
        ("friday fridays fri", "fri"),
        ("saturday saturdays sat", "sat"),
        ("sunday sundays sun", "sun"),
    )
    for word in words.split()
}
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("", "january jan", "february feb", "march mar", "april apr", "may", "june jun"),
            *("july jul", "august aug", "september sep sept", "october oct"),
            *("november nov", "december dec"),
        )
    )
    for name in names.split()
}
HALVES = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "night"}
_OFTEN = {"daily": "day", "nightly": "night", "weekly": "week", "monthly": "month"} | {
    "hourly": "hour",
    "yearly": "year",
    "annually": "year",
    "quarterly": "quarter",
}
_AGAIN = frozenset(
    {
        *("mondays", "tuesdays", "wednesdays", "thursdays", "fridays", "saturdays", "sundays"),
        *("weekdays", "weekends", "workdays", "every", "each"),
    }
)
_RANGE = re.compile(r"([a-z]+) ?(?:-|to|through|thru|till|until) ?([a-z]+)")
_DAY_NUMBER = re.compile(r"(?:the )?(\d{1,2})(?:st|nd|rd|th)?")
_OF_MONTH = re.compile(
    r"(?:month(?: on)? )?(?:the )?(?:day )?(?P<days>\d.*?)"
    r"(?: (?:day )?of (?:the|every|each)? ?month)?"
)
_TIMES = rf"{TIME}(?:(?:,? and |, ?| & )(?:at )?{TIME})*"
_TIME_LAST = re.compile(rf"(?P<days>.*?),? ?(?:\bat )?(?P<times>{_TIMES})")
_TIME_FIRST = re.compile(rf"(?:at )?(?P<times>{_TIMES}),? (?P<days>(?:every|each|on|daily)\b.*)")
_AT_MINUTE = re.compile(
    r"(?:(?P<count>\w+) )?hours? (?:at|on) (?:the )?"
    r"(?:(?:minute |:)(?P<minute>\d{1,2})|(?P<past>\d{1,2}) (?:minutes )?past|half hour|hour)"
)
_WINDOW = re.compile(
    rf"(?P<every>.+?),? (?:between|from) (?P<first>{TIME}) (?:and|to|till|until|-) "
    rf"(?P<last>{TIME})(?:,? (?:on |every )?(?P<days>.+))?"
)
_ON_DAYS = re.compile(r"(?P<every>.+?),? on (?P<days>.+)")
_TIME_AND_HALF = re.compile(
    rf"(?P<days>.*?),? ?(?P<at>\bat )?(?P<times>{_TIMES}),? (?:in the |at )?"
    r"(?P<half>morning|afternoon|evening|night)"
)
_BOUND = re.compile(
    r"(?P<every>.+?),? (?:for|until|till|starting|beginning|begins?|since|after|from)\b.*"
)
_TIME_EACH = re.compile(rf"(?P<first>.+? at {TIME}),? (?:and |& )?(?:on |every )*[a-z].* at {TIME}")
_UNSAID = {
    re.compile(r"\b(?:last|final) (?:day|weekday|workday|monday|friday|sunday)\b"): (
        "the last day of a month cannot be said; name one that every month has, such as "
        '"every month on the 28th at 9:00"'
    ),
    re.compile(r"\b(?:first|second|third|fourth|[1-4](?:st|nd|rd|th)) [a-z]+day\b"): (
        'a weekday of a certain week cannot be said; say "every monday at 9:00" or a day of the '
        'month, such as "every month on the 1st at 9:00"'
    ),
    re.compile(
        r"\bother [a-z]*(?:day|end)s?\b(?! ?$)|\bother (?:mon|tues|wednes|thurs|fri|satur|sun)"
    ): 'every other such day cannot be said; "every 2 weeks" and "every 2 days" count from now',
    re.compile(r"\b(?:twice|three times|several times)\b"): (
        'it does not say at what times; say them, such as "every day at 9:00 and 17:00"'
    ),
    re.compile(r"\b(?:except|but not|unless|excluding)\b"): (
        "exceptions cannot be said; name the days that it runs on, such as "
        '"every monday, tuesday and friday at 9:00"'
    ),
}
_MINUTES_OF_HOUR = 60
_MOST_DAYS = 31
_HOURS_OF_DAY = 24


def is_recurring(words: str) -> bool:
    """Whether words are about something that comes again."""
    parts = re.split(r"[ ,/&]+", words)
    days = [part for part in parts if part in DAYS]
    return bool(
        _AGAIN.intersection(parts)
        or _OFTEN.keys() & set(parts)
        or (_RANGE.match(words) and _RANGE.match(words)[1] in DAYS)  # pyright: ignore[reportOptionalSubscript]
        or (len(days) > 1 and parts[0] in DAYS)
        or re.search(r"\bof (?:the|every|each) month\b|\b(?:once|twice|times) (?:a|an|per) ", words)
    )


def without_every(words: str) -> str:
    """What comes again, without the word that says so, and its time at the end."""
    first = _TIME_FIRST.fullmatch(words)
    if first is not None:
        words = f"{first['days']} at {first['times']}"
    words = re.sub(r"^(?:once (?:a|an|per|every) |on (?=every |each ))", "every ", words)
    words = re.sub(r"^(?:every |each |on (?:the )?(?=\w))+", "", words)
    words = " ".join(_OFTEN.get(word, word) for word in words.split(" "))
    return re.sub(r"\b(?:business|working|work) day", "weekday", words)


def crontab_of(words: str) -> str:
    """A crontab expression for words such as `weekday at 9:00` or `month on the 1st at noon`."""
    for pattern, problem in _UNSAID.items():
        if pattern.search(words):
            raise ValueError(problem)
    try:
        return _crontab_of(words)
    except ValueError:
        if problem := _no_schedule(words):
            raise ValueError(problem) from None
        raise


def _no_schedule(words: str) -> str:
    """What people say of times that come again and no schedule can be; empty where it is not."""
    if words.isdecimal() and int(words) > _MOST_DAYS:
        return f'"{words}" has no unit; say it, such as "every {words} minutes"'
    if re.match(r"-\d", words):
        return 'a length of time is not negative; say it without the minus, such as "every 2h"'
    if (match := _TIME_EACH.fullmatch(words)) is not None:
        return (
            f'days that have a time each are a job each; make one for "every {match["first"]}" and '
            "one for the others"
        )
    if _WINDOW.fullmatch(words) is not None:
        return ""
    if (match := _BOUND.fullmatch(words)) is not None:
        every = match["every"] if _is_length(match["every"]) else "2h"
        return (
            f'it has no start or end of its own; say "every {every}", and after how many runs it '
            "ends with --runs N"
        )
    match = _ON_DAYS.fullmatch(words)
    if match is not None and length(match["every"]) is not None and not _is_short(match["every"]):
        return (
            f'"{match["every"]}" counts from now and has no days; say "every {match["every"]}", or '
            'name the days alone, such as "every monday at 9:00"'
        )
    return ""


def _crontab_of(words: str) -> str:
    if (match := _AT_MINUTE.fullmatch(words)) is not None:
        return _at_minute(match)
    if (match := _WINDOW.fullmatch(words)) is not None:
        return _in_window(match)
    if (match := _ON_DAYS.fullmatch(words)) is not None and _is_short(match["every"]):
        minute, hour = _often(match["every"])
        return f"{minute} {hour} * * {_weekdays(match['days'])}"
    return _on_days(words)


def _on_days(words: str) -> str:
    match = _TIME_LAST.fullmatch(words)
    late = _TIME_AND_HALF.fullmatch(words)
    if late is not None and (late["at"] or late["days"] in DAYS):
        return _crontab(times_of_day(late["times"], HALVES[late["half"]]), late["days"] or "day")
    part = re.fullmatch(r"(?:(.+?) )?(?:in the )?(morning|afternoon|evening|night)s?", words)
    if part is not None:
        return _crontab([time_of_day(part[2])], part[1] or "day")
    days = match["days"].strip() if match else words
    if not days:
        raise ValueError('it does not say on which days; say it, such as "every day at 9:00"')
    if match is None or _is_date(words):
        _days(words)  # says what is wrong with them first
        raise ValueError(
            f'it does not say at what time; say it, such as "every {words.strip()} at 9:00"'
        )
    half = re.search(r"\b(?:in the )?(morning|afternoon|evening|night)s?$", days)
    if half is not None:
        days = days[: half.start()].strip() or "day"
    return _crontab(times_of_day(match["times"], HALVES[half[1]] if half else ""), days)


def _crontab(times: list[tuple[int, int]], days: str) -> str:
    hours = ",".join(str(hour) for hour, _ in times)
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise ValueError(
            "several times of one job are at the same minute of the hour, such as "
            '"every day at 9:30 and 17:30"; make a job for each of the others'
        )
    return f"{minutes.pop()} {hours} {_days(days)}"


def _is_date(words: str) -> bool:
    """Whether what looks like a time is the day of a month."""
    return bool(re.search(r"\b(?:on|on the) \d{1,2}$", words)) or any(
        re.search(rf"\b{name} \d{{1,2}}$", words) for name in MONTHS
    )


def _days(text: str) -> str:
    """The last three fields, of days such as `monday`, `month on the 1st` or `24 december`."""
    of_month = _OF_MONTH.fullmatch(text)
    if month := _day_and_month(text):
        return month
    first = re.sub(r"\bfirst\b(?= (?:day )?of)", "1st", text).replace("1st day of", "1st of")
    if first != text:
        return _days(first)
    if of_month is not None and not _is_length(text):
        return f"{_days_of_month(of_month['days'])} * *"
    if text in ("month", "quarter", "year"):
        raise ValueError(
            f"it does not say on which day of the {text}; say it, such as "
            '"every month on the 1st at 9:00" or "every year on march 1 at 9:00"'
        )
    if text == "week":
        raise ValueError('it does not say on which weekday; say it, such as "every monday at 9:00"')
    week = re.sub(r"^week,? (?:on )?", "", text)
    if _is_length(week) and week not in DAYS:
        raise ValueError(
            f'"{week}" counts from now and has no time of day; say "every {week}", or name the '
            'days, such as "every weekday at 9:00"'
        )
    return f"* * {_weekdays(week)}"


def _day_and_month(text: str) -> str:
    """The fields of a day that comes once a year; empty where there is none."""
    words = re.sub(r"^year,? (?:on )?|\b(?:the|of)\b|,", " ", text).split()
    if len(words) != 2 or not {word for word in words if word in MONTHS}:
        return ""
    day, month = words if words[1] in MONTHS else words[::-1]
    return f"{_days_of_month(day)} {MONTHS[month]} *"


def _days_of_month(text: str) -> str:
    days: list[int] = []
    for part in re.split(r",? and |, ?| & ", text):
        match = _DAY_NUMBER.fullmatch(part.strip())
        if match is None or not 1 <= int(match[1]) <= _MOST_DAYS:
            raise ValueError(f'"{part}" is not a day of the month from 1 to 31')
        days.append(int(match[1]))
    return ",".join(map(str, sorted(set(days))))


def _weekdays(text: str) -> str:
    """The last field, of words such as `monday and friday` or `monday to thursday`."""
    found = [_weekday(part) for part in re.split(r",? and (?:on )?|, ?| & |/", _joined(text))]
    return "*" if "*" in found else ",".join(dict.fromkeys(found))


def _joined(text: str) -> str:
    text = _RANGE.sub(lambda m: f"{m[1]}-{m[2]}" if m[1] in DAYS else m[0], text)
    # Days may also stand beside one another.
    return re.sub(r"(?<=[a-z]) (?=[a-z])(?!and )(?<!and )", ", ", text.strip())


def _weekday(part: str) -> str:
    first, dash, last = part.strip().partition("-")
    if not part.strip():
        raise ValueError("between two commas, or after one, there is no day")
    for word in (first, last) if dash else (first,):
        if word not in DAYS:
            raise ValueError(f'"{word or part}" is neither a day nor a length of time')
    if not dash:
        return DAYS[first]
    if "," in f"{DAYS[first]}{DAYS[last]}" or "-" in f"{DAYS[first]}{DAYS[last]}":
        raise ValueError(f'"{part}" is no range of weekdays such as "monday to friday"')
    return f"{DAYS[first]}-{DAYS[last]}"


def _at_minute(match: re.Match[str]) -> str:
    """Of `hour at :15` and `2 hours at minute 30`."""
    given = match["minute"] or match["past"]
    minute = int(given) if given else 30 if match[0].endswith("half hour") else 0
    if minute >= _MINUTES_OF_HOUR:
        raise ValueError(f'"{given}" is not a minute of an hour from 0 to 59')
    _, hour = _often(f"{match['count'] or 1} hours")
    return f"{minute} {hour} * * *"


def _in_window(match: re.Match[str]) -> str:
    """Of `15 minutes between 9:00 and 17:00 on weekdays`."""
    every, _, on = match["every"].partition(" on ")
    minute, hour = _often(every)
    first, last = time_of_day(match["first"]), time_of_day(match["last"])
    if first[1] or last[1] or first >= last:
        raise ValueError(
            "hours between which it runs are whole ones of one day, such as "
            '"every 15 minutes between 9:00 and 17:00"'
        )
    # What comes several times an hour ends with the hour; what comes by the hour takes it in.
    until = last[0] - 1 if minute != "0" else last[0]
    step = hour.removeprefix("*")
    days = _weekdays(match["days"] or on) if match["days"] or on else "*"
    return f"{minute} {first[0]}-{until}{step} * * {days}"


def _is_length(words: str) -> bool:
    try:
        return is_unit(words) or length(words) is not None
    except ValueError:
        return False


def _is_short(words: str) -> bool:
    """Whether words are a length of less than a day."""
    try:
        found = length(f"1 {words}" if is_unit(words) else words)
    except ValueError:
        return False
    return found is not None and found < timedelta(days=1)


def _often(words: str) -> tuple[str, str]:
    """The minute and hour fields of something that comes several times a day."""
    found = length(f"1 {words}" if is_unit(words) else words)
    seconds = 0 if found is None else int(found.total_seconds())
    minutes, rest = divmod(seconds, _MINUTES_OF_HOUR)
    hours, over = divmod(minutes, _MINUTES_OF_HOUR)
    if not rest and minutes and not _MINUTES_OF_HOUR % minutes and not hours:
        return (f"*/{minutes}" if minutes > 1 else "*"), "*"
    if not rest and not over and hours and not _HOURS_OF_DAY % hours and hours < _HOURS_OF_DAY:
        return "0", (f"*/{hours}" if hours > 1 else "*")
    raise ValueError(
        f'"{words}" does not divide an hour or a day evenly; say a length that does, such as '
        '"every 15 minutes" or "every 2 hours"'
    )
