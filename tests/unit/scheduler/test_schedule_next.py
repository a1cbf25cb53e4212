"""When a schedule fires next: across daylight saving, without drift, always later."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule, next_after

NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
CAIRO, KOLKATA = "Africa/Cairo", "Asia/Kolkata"


def firings(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    at = next_after(schedule, after)
    while at is not None:
        yield at
        at = next_after(schedule, at)


def wall(at: datetime, zone: str) -> str:
    return at.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z")


@pytest.mark.parametrize(
    ("expression", "zone", "day", "expected"),
    [
        # Clocks go forward: what does not exist fires once, at the end of the gap.
        ("30 2 * * *", NEW_YORK, date(2026, 3, 7), "07 02:30-0500 08 03:00-0400 09 02:30-0400"),
        ("30 2 * * *", BERLIN, date(2026, 3, 28), "28 02:30+0100 29 03:00+0200 30 02:30+0200"),
        ("15 2 * * *", LORD_HOWE, date(2026, 10, 3), "03 02:15+1030 04 02:30+1100 05 02:15+1100"),
        ("0 0 * * *", CAIRO, date(2026, 4, 23), "23 00:00+0200 24 01:00+0300 25 00:00+0300"),
        ("0,30 2,3 * * *", BERLIN, date(2026, 3, 29), "29 03:00+0200 29 03:30+0200 30 02:00+0200"),
        ("*/30 * 29 3 *", BERLIN, date(2026, 3, 29), ("29 00:00+0100 29 00:30+0100 29 01:00+0100 "
         "29 01:30+0100 29 03:00+0200 29 03:30+0200")),
        # Clocks go back: what occurs twice fires the first time only.
        ("30 1 * * *", NEW_YORK, date(2026, 10, 31), "31 01:30-0400 01 01:30-0400 02 01:30-0500"),
        ("30 2 * * *", BERLIN, date(2026, 10, 24), "24 02:30+0200 25 02:30+0200 26 02:30+0100"),
        ("0 */2 * * *", BERLIN, date(2026, 10, 25), "25 00:00+0200 25 02:00+0200 25 04:00+0100"),
        # An hour field of `*` follows the hours that pass.
        ("0 * 25 10 *", BERLIN, date(2026, 10, 25), ("25 00:00+0200 25 01:00+0200 25 02:00+0200 "
         "25 02:00+0100 25 03:00+0100")),
        ("*/20 * * * *", LORD_HOWE, date(2026, 4, 5), ("05 00:00+1100 05 00:20+1100 05 00:40+1100 "
         "05 01:00+1100 05 01:20+1100 05 01:40+1100 05 01:40+1030 05 02:00+1030")),
        # No daylight saving, half an hour beside the hour.
        ("0 9 * * *", KOLKATA, date(2026, 3, 29), "29 09:00+0530 30 09:00+0530"),
        # The wall clock holds across the change, not the distance.
        ("0 9 * * *", BERLIN, date(2026, 3, 28), "28 09:00+0100 29 09:00+0200 30 09:00+0200"),
    ],
)  # fmt: skip
def test_daylight_saving(expression: str, zone: str, day: date, expected: str) -> None:
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    times = expected.split()
    found = islice(
        firings(Cron(expression, zone), midnight - timedelta(seconds=1)), len(times) // 2
    )
    assert " ".join(wall(at, zone) for at in found) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * mon-fri", "23 09:00 24 09:00 25 09:00 26 09:00 27 09:00 30 09:00"),
        ("0 9 * * 0", "22 09:00 29 09:00"),
        ("0 9 * * 7", "22 09:00 29 09:00"),
        ("0 9 * * 5-7", "22 09:00 27 09:00 28 09:00 29 09:00"),
        ("0 9 * * sat-mon", "22 09:00 23 09:00 28 09:00 29 09:00 30 09:00"),
        ("0 9 * * */2", "22 09:00 24 09:00 26 09:00 28 09:00 29 09:00"),
        ("0 9 24 * wed", "24 09:00 25 09:00 02 09:00"),
        ("0 9 */10 * tue", "01 09:00"),
        ("0 9 22-24 nov *", "22 09:00 23 09:00 24 09:00 22 09:00"),
        ("50/3 9 * * *", "22 09:50 22 09:53 22 09:56 22 09:59 23 09:50"),
    ],
)
def test_crontab_fields(expression: str, expected: str) -> None:
    start = datetime(2026, 11, 21, 22, 15, tzinfo=UTC)
    times = expected.split()
    found = islice(firings(Cron(expression, "UTC"), start), len(times) // 2)
    assert " ".join(at.strftime("%d %H:%M") for at in found) == expected


def test_a_leap_day_is_found_across_a_century_without_one() -> None:
    leap = Cron("0 0 29 2 *", "UTC")
    assert next_after(leap, datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


def test_once_fires_once() -> None:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert next_after(Once(at), at - timedelta(seconds=1)) == at
    assert next_after(Once(at), at) is None


@pytest.mark.parametrize("late", [0, 0.001, 59.9, 7199.999])
def test_an_interval_keeps_its_anchor_however_late_it_is_asked(late: float) -> None:
    anchor = datetime(2026, 3, 28, 23, 30, tzinfo=ZoneInfo(BERLIN)).astimezone(UTC)
    hours = Interval(timedelta(hours=2), anchor)
    after = anchor + timedelta(hours=200, seconds=late)
    assert next_after(hours, after) == anchor + timedelta(hours=202)
    assert next_after(hours, anchor - timedelta(days=1)) == anchor + timedelta(hours=2)


ZONES = st.sampled_from([NEW_YORK, BERLIN, LORD_HOWE, CAIRO, KOLKATA, "UTC", "Asia/Tehran"])
INSTANTS = st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    some = st.sets(st.integers(low, high), min_size=1, max_size=3)
    return st.one_of(st.just("*"), some.map(lambda numbers: ",".join(map(str, sorted(numbers)))))


EXPRESSIONS = st.tuples(
    _numbers(0, 59), _numbers(0, 23), _numbers(1, 28), _numbers(1, 12), _numbers(0, 7)
).map(" ".join)
SCHEDULES = st.one_of(
    st.builds(Cron, EXPRESSIONS, ZONES),
    st.builds(
        Interval,
        st.integers(60, 10**8).map(lambda seconds: timedelta(seconds=seconds)),
        INSTANTS.map(lambda at: at.replace(microsecond=0)),
    ),
    st.builds(Once, INSTANTS),
)


@given(SCHEDULES, INSTANTS)
def test_the_next_firing_is_strictly_later(schedule: Schedule, after: datetime) -> None:
    found = [after, *islice(firings(schedule, after), 5)]
    assert all(later > earlier for earlier, later in pairwise(found))
    if not isinstance(schedule, Once):
        assert len(found) == 6
        assert all(at.microsecond == 0 for at in found[1:])


def _expected_instants(expression: str, zone: str, first: date, days: int) -> list[datetime]:
    """Minute by minute over the wall clock, with the rules written down once more."""
    minute, hour, day, month, weekday = (
        None if field == "*" else {int(number) for number in field.split(",")}
        for field in expression.split()
    )
    found: set[datetime] = set()
    start = datetime(first.year, first.month, first.day)  # noqa: DTZ001
    for count in range(days * 1440):
        at = start + timedelta(minutes=count)
        days_match = [
            names is not None and value in names
            for names, value in ((day, at.day), (weekday, at.isoweekday() % 7))
        ]
        if weekday and 7 in weekday and at.isoweekday() == 7:
            days_match[1] = True
        on_day = any(days_match) if day or weekday else True
        if (
            on_day
            and (minute is None or at.minute in minute)
            and (hour is None or at.hour in hour)
            and (month is None or at.month in month)
        ):
            found.update(_places(at, zone, both_passes=hour is None))
    return sorted(found)


def _places(at: datetime, zone: str, *, both_passes: bool) -> set[datetime]:
    def exists(local: datetime) -> bool:
        there_and_back = local.astimezone(UTC).astimezone(ZoneInfo(zone))
        return there_and_back.replace(tzinfo=None) == local.replace(tzinfo=None)

    local = at.replace(tzinfo=ZoneInfo(zone))
    if not exists(local):
        later = local
        while not exists(later):
            later += timedelta(minutes=1)
        return {later.astimezone(UTC)}
    return {local.astimezone(UTC)} | (
        {local.replace(fold=1).astimezone(UTC)} if both_passes else set()
    )


@settings(deadline=None, max_examples=10)
# The next firing but those of the second pass is in the next year's summer.
@example("* * 5,6,24 6,7,10 0,1,4", (CAIRO, date(2026, 10, 29)))
@given(
    EXPRESSIONS,
    st.sampled_from(
        [
            (NEW_YORK, date(2026, 3, 7)), (NEW_YORK, date(2026, 10, 31)),
            (BERLIN, date(2026, 3, 28)), (BERLIN, date(2026, 10, 24)),
            (LORD_HOWE, date(2026, 4, 4)), (LORD_HOWE, date(2026, 10, 3)),
            (CAIRO, date(2026, 4, 23)), (CAIRO, date(2026, 10, 29)),
        ]
    ),
)  # fmt: skip
def test_days_with_a_change_of_clocks_agree_with_a_minute_by_minute_search(
    expression: str, change: tuple[str, date]
) -> None:
    zone, day = change
    start = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    end = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) + timedelta(days=3)
    found: list[datetime] = []
    for at in firings(Cron(expression, zone), start - timedelta(seconds=1)):
        if at >= end:
            break
        found.append(at)
    assert found == _expected_instants(expression, zone, day, 3)
