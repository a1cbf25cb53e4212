"""Lengths of time and times of day, as people write them; pure functions."""

import re
from datetime import timedelta
from fractions import Fraction

_UNITS = {
    unit: seconds
    for units, seconds in (
        ("s sec secs second seconds", 1),
        ("m min mins minute minutes", 60),
        ("h hr hrs hour hours", 3600),
        ("d day days", 86400),
        ("w wk wks week weeks", 604800),
        ("fortnight fortnights", 1_209_600),
    )
    for unit in units.split()
}
_CALENDAR = frozenset(
    ["month", "months", "quarter", "quarters", "year", "years", "mo", "mos", "yr", "yrs", "y"]
)
"""Units that have no length of their own."""
_COUNTS = {
    word: f"{number}"
    for number, words in enumerate(
        (
            *("", "one", "two other", "three third", "four fourth", "five fifth"),
            *("six sixth", "seven seventh", "eight eighth", "nine ninth", "ten tenth"),
            *("eleven", "twelve twelfth"),
        )
    )
    for word in words.split()
} | {"fifteen": "15", "twenty": "20", "thirty": "30", "forty": "40", "forty-five": "45"}
_ORDINAL = re.compile(r"(\d{1,9})(?:st|nd|rd|th)\b")
_COUNTED = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([a-z]+)")
_LENGTH = re.compile(r"(?:\d{1,9}(?:\.\d{1,3})? ?[a-z]+ ?)+")
_IN_WORDS = (
    (re.compile(r"\b(?:a |one )?half(?: an?| of an)? hour\b|\bhalf hourly\b"), "30 minutes"),
    (re.compile(r"\b(?:a |one )?quarter(?: of an)? hour\b"), "15 minutes"),
    (re.compile(r"\b(?:an?|one) hour and a half\b"), "90 minutes"),
    (re.compile(r"\b(\d+) hours? and a half\b"), r"\1.5 hours"),
    (re.compile(r"^an? "), "1 "),
    (re.compile(r"^second (?=[a-z])(?!and )"), "2 "),
)

_NAMED_TIMES = {
    "noon": (12, 0),
    "midday": (12, 0),
    "midnight": (0, 0),
    "morning": (8, 0),
    "the morning": (8, 0),
    "afternoon": (15, 0),
    "the afternoon": (15, 0),
    "evening": (18, 0),
    "the evening": (18, 0),
    "night": (21, 0),
}
_PAST = re.compile(r"(half past|quarter past|quarter to) (\d{1,2})")
_PAST_MINUTES = {"half past": 30, "quarter past": 15, "quarter to": -15}
_CLOCK = re.compile(r"(\d{1,2})(?:[:.h](\d{2}))?(?::00)?(?: ?o'?clock)? ?([ap]\.?m\.?)?")
TIME = (
    r"(?:noon|midday|midnight|(?:half past|quarter past|quarter to) \d{1,2}(?: ?[ap]\.?m\.?)?"
    r"|\d{1,2}(?:[:.h]\d{2})?(?::00)?(?: ?o'?clock)?(?: ?[ap]\.?m\.?)?)(?![\w:])"
)
"""What a time of day looks like."""


def length(words: str) -> timedelta | None:
    """The sum of units such as `1h30m` or `2 hours and 5 minutes`; None if there are none."""
    for pattern, meaning in _IN_WORDS:
        words = pattern.sub(meaning, words)
    words = _ORDINAL.sub(r"\1", words)
    words = " ".join(_COUNTS.get(word, word) for word in words.split(" "))
    joined = re.sub(r",? and |, ?", " ", words)
    if not _LENGTH.fullmatch(joined):
        return None
    seconds = Fraction(0)
    for count, unit in _COUNTED.findall(joined):
        if unit in _CALENDAR:
            raise ValueError(
                f'"{unit}" has no length of its own; name the day, such as '
                '"every month on the 1st at 9:00"'
            )
        if unit not in _UNITS:
            raise ValueError(f'"{unit}" is not a unit of time')
        seconds += Fraction(count) * _UNITS[unit]
    if seconds == 0:
        raise ValueError("it takes no time")
    return timedelta(seconds=int(seconds))


def is_unit(word: str) -> bool:
    """Whether a word is a unit that one of may be meant by."""
    return word in _UNITS or word in _CALENDAR


def time_of_day(text: str, half: str = "") -> tuple[int, int]:
    """The hour and minute of a time of day; `half` is am, pm or night where other words say so."""
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    match = _PAST.match(text)
    shift = _PAST_MINUTES[match[1]] if match else 0
    found = _CLOCK.fullmatch(text[match.start(2) :] if match else text)
    if found is None:
        raise ValueError(f'"{text}" is not a time of day such as 9:00, 17:30 or 8am')
    hour, minute = int(found[1]), int(found[2] or 0)
    named = (found[3] or "").replace(".", "")
    valid = 1 <= hour <= 12 if named else hour <= 23
    if not valid or minute > 59:
        raise ValueError(f'"{text}" is not a time of day such as 9:00, 17:30 or 8am')
    if named or (half and 1 <= hour <= 12):
        is_late = named == "pm" if named else half == "pm" or (half == "night" and 6 <= hour <= 11)
        hour = hour % 12 + (12 if is_late else 0)
    total = (hour * 60 + minute + shift) % 1440
    return total // 60, total % 60


def times_of_day(text: str, half: str = "") -> list[tuple[int, int]]:
    """Several of them, such as `9:00, noon and 18:00`."""
    parts = [part for part in re.split(r",? and (?:at )?|, ?(?:at )?| & ", text) if part]
    return sorted({time_of_day(part, half) for part in parts})
