"""Hundreds of schedules as people write them, and what is said of those that are none."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_service.errors import ScheduleError
from scheduler_service.schedule.schedule import Cron, Interval, Once, Schedule, parse, zone_of
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


def test_the_tables_are_long_enough_and_have_each_text_once() -> None:
    for most, table in ((200, [*rows(ONCE), *rows(AGAIN)]), (100, rows(REFUSED))):
        texts = [row[0] for row in table]
        assert len(texts) == len(set(texts)) >= most
