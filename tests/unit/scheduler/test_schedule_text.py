"""What people write as a schedule, and what it is read as."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.errors import ScheduleError
from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule, check_zone, parse

NOW = datetime(2026, 11, 21, 22, 15, 36, 500_000, tzinfo=UTC)
SECOND = datetime(2026, 11, 21, 22, 15, 37, tzinfo=UTC)  # the next whole one
BERLIN = "Europe/Berlin"


def _in(**length: float) -> Once:
    return Once(SECOND + timedelta(**length))


def _every(**length: float) -> Interval:
    return Interval(timedelta(**length), anchor=SECOND)


def _at(*wall_utc: int) -> Once:
    return Once(datetime(*wall_utc, tzinfo=UTC))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", _in(minutes=30)),
        ("in 2 hours", _in(hours=2)),
        ("in an hour", _in(hours=1)),
        ("In 20 Minutes", _in(minutes=20)),
        ("1h30m", _in(minutes=90)),
        ("in 2 hours and 5 minutes", _in(minutes=125)),
        ("45 secs", _in(seconds=45)),
        ("in 3 days", _in(days=3)),
        ("2w", _in(weeks=2)),
        ("every 2h", _every(hours=2)),
        ("every 30 minutes", _every(minutes=30)),
        ("  every   90s ", _every(seconds=90)),
        ("every hour", _every(hours=1)),
        ("every day", _every(days=1)),
        ("every 1d 12h", _every(hours=36)),
        ("2027-03-01T09:00", _at(2027, 3, 1, 8)),
        ("2027-03-01 09:00:30", _at(2027, 3, 1, 8, 0, 30)),
        ("2027-07-01", _at(2027, 6, 30, 22)),
        ("2027-03-01T09:00:00Z", _at(2027, 3, 1, 9)),
        ("2027-03-01T09:00+05:00", _at(2027, 3, 1, 4)),
        ("2027-03-28T02:30", _at(2027, 3, 28, 1)),
        ("every day at 9:00", Cron("0 9 * * *", BERLIN)),
        ("every weekday at 9:00", Cron("0 9 * * mon-fri", BERLIN)),
        ("every weekend at noon", Cron("0 12 * * sat,sun", BERLIN)),
        ("every monday 8am", Cron("0 8 * * mon", BERLIN)),
        ("every Monday and Friday at 6:30 PM", Cron("30 18 * * mon,fri", BERLIN)),
        ("every mon, wed, and fri at 7", Cron("0 7 * * mon,wed,fri", BERLIN)),
        ("every day at 12am", Cron("0 0 * * *", BERLIN)),
        ("every day at 12 pm", Cron("0 12 * * *", BERLIN)),
        ("every sunday at midnight", Cron("0 0 * * sun", BERLIN)),
        ("0 9 * * MON-FRI", Cron("0 9 * * mon-fri", BERLIN)),
        ("*/15 8-18/2 1,15 jan-mar 0,7", Cron("*/15 8-18/2 1,15 jan-mar 0,7", BERLIN)),
        ("@daily", Cron("0 0 * * *", BERLIN)),
        ("@Hourly", Cron("0 * * * *", BERLIN)),
        ("@weekly", Cron("0 0 * * 0", BERLIN)),
        ("@monthly", Cron("0 0 1 * *", BERLIN)),
        ("@yearly", Cron("0 0 1 1 *", BERLIN)),
    ],
)
def test_reads(text: str, expected: Schedule) -> None:
    assert parse(text, BERLIN, NOW) == expected


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "it is no delay"),
        ("hello", '"hello"'),
        ("every", '"every"'),
        ("in 2 blorps", '"blorps" is not a unit of time'),
        ("0m", "it takes no time"),
        ("every 10s", "an interval lasts a minute or more"),
        ("every blursday at 9", '"blursday" is neither a day nor a length of time'),
        ("every monday", "it does not say at what time"),
        ("every day at 25:00", '"25:00" is not a time of day'),
        ("every day at 13pm", '"13pm" is not a time of day'),
        ("every day at 9:75", '"9:75" is not a time of day'),
        ("0 25 * * *", 'the hour "25" is outside 0-23'),
        ("60 * * * *", 'the minute "60" is outside 0-59'),
        ("0 9 0 * *", 'the day of the month "0" is outside 1-31'),
        ("0 9 * foo *", '"foo" is not a month'),
        ("0 9 * * mo", '"mo" is not a weekday'),
        ("0 9 * * 8", 'the weekday "8" is outside 0-7'),
        ("0 9 * * *-5", '"*-5" is not a weekday'),
        ("0 9 20-10 * *", 'the day of the month range "20-10" ends before it begins'),
        ("0 */0 * * *", 'the step of the hour "*/0" is out of range'),
        ("0 9 * * mon-fri/9", 'the step of the weekday "mon-fri/9" is out of range'),
        ("0 9 1,, * *", '"" is not a day of the month'),
        ("* * * *", '"* * * *"'),
        ("0 0 31 2 *", "there is no such date"),
        ("@reboot", '"@reboot" is none of @hourly, @daily'),
        ("2020-01-01T09:00", "that is in the past"),
        ("in 9999 weeks", "that is more than ten years away"),
        ("999999999d 999999999w", "cannot use the schedule"),
        ("0001-01-01T00:00+23:00", "that is too far away"),
    ],
)
def test_says_what_was_not_understood_and_shows_three_examples(text: str, quoted: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse(text, BERLIN, NOW)
    message = str(raised.value)
    assert quoted in message
    assert f'the schedule "{text}"' in message
    examples = message.partition("examples: ")[2].strip('"').split('", "')
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
        "every",
        "in",
        "at",
        "and",
        ",",
        "2",
        "30",
        "h",
        "m",
        "1h",
        "day",
        "weekday",
        "monday",
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
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(_WORDS, max_size=8).map(" ".join)))
def test_any_text_is_a_schedule_or_a_schedule_error(text: str) -> None:
    try:
        schedule = parse(text, BERLIN, NOW)
    except ScheduleError:
        return
    assert isinstance(schedule, Once | Interval | Cron)
