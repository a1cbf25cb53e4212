"""Schedules as people write them, and what is said of those that are none."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.errors import ScheduleError
from scheduler_service.schedule.schedule import (
    Cron,
    Interval,
    Once,
    Schedule,
    check_zone,
    parse,
    zone_of,
)
from tests.unit.scheduler.phrase_table import AGAIN, ONCE, rows
from tests.unit.scheduler.refused_table import REFUSED

NOW = datetime(2026, 11, 21, 22, 15, 36, 500_000, tzinfo=UTC)
SECOND = datetime(2026, 11, 21, 22, 15, 37, tzinfo=UTC)  # the next whole one
BERLIN = "Europe/Berlin"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _length(text: str) -> timedelta:
    return timedelta(seconds=int(text[:-1]) * UNITS_S[text[-1]])


def _expected(meaning: str, zone: str) -> Schedule:
    sign, _, rest = meaning.partition(" ")
    match sign:
        case "+":
            return Once(SECOND + _length(rest))
        case "~":
            return Interval(_length(rest), anchor=SECOND)
        case "=":
            return Once(datetime.fromisoformat(rest).replace(tzinfo=UTC))
        case _:
            return Cron(meaning, zone)


@pytest.mark.parametrize("row", [*rows(ONCE), *rows(AGAIN)], ids=lambda row: row[0])
def test_it_is_read_as_the_table_says(row: tuple[str, ...]) -> None:
    text, meaning, *zones = row
    zone = zones[0] if zones else BERLIN
    found = parse(text, BERLIN, NOW)
    assert found == _expected(meaning, zone)
    if isinstance(found, Cron):
        assert zone_of(text, BERLIN) == zone


@pytest.mark.parametrize("row", rows(REFUSED), ids=lambda row: row[0])
def test_it_is_refused_with_what_is_wrong_and_examples(row: tuple[str, ...]) -> None:
    text, wrong = row
    with pytest.raises(ScheduleError) as raised:
        parse(text, BERLIN, NOW)
    message = str(raised.value)
    assert message.startswith(f'cannot use the schedule "{text}": ')
    assert wrong in message
    examples = message.rpartition("examples: ")[2].strip('"').split('", "')
    assert len(examples) == 3
    for example in examples:
        parse(example, BERLIN, NOW)


def test_a_long_text_is_refused_and_quoted_in_part() -> None:
    with pytest.raises(ScheduleError, match="longer than 200 characters") as raised:
        parse("every " * 10_000, BERLIN, NOW)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "/etc/passwd", "America"])
def test_an_unknown_time_zone_is_named(zone: str) -> None:
    with pytest.raises(ScheduleError, match="is not a time zone"):
        parse("every day at 9:00", zone, NOW)
    with pytest.raises(ValueError, match="is not a time zone"):
        check_zone(zone)


_WORDS = st.sampled_from(
    [
        *("every", "in", "at", "and", ",", "2", "30", "h", "m", "1h", "day", "weekday", "monday"),
        *(
            "8am",
            "9:00",
            "noon",
            "*",
            "*/5",
            "0",
            "7",
            "mon-fri",
            "@daily",
            "-",
            "/",
            "2027-01-01",
            "T09:00",
            "Z",
        ),
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(_WORDS, max_size=8).map(" ".join)))
def test_any_text_is_a_schedule_or_a_schedule_error(text: str) -> None:
    try:
        schedule = parse(text, BERLIN, NOW)
    except ScheduleError:
        return
    assert isinstance(schedule, Once | Interval | Cron)
