"""Ids sort by time and never meet."""

import re
import time
from datetime import UTC, datetime

from services.ids import new_id, new_session_id


def test_an_id_is_its_prefix_and_26_characters() -> None:
    assert re.fullmatch(r"trn_[0-9a-v]{26}", new_id("trn"))


def test_later_ids_sort_later() -> None:
    ids: list[str] = []
    for _ in range(20):
        ids.append(new_id("msg"))
        time.sleep(0.002)
    assert ids == sorted(ids)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id("exc") for _ in range(10_000)}) == 10_000


def test_a_session_id_has_the_format_of_the_home() -> None:
    found = new_session_id(datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC))
    assert re.fullmatch(r"20260304_050607_[0-9a-f]{6}", found)
