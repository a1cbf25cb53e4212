"""The slices of time that PostgreSQL is asked for hold every message once, and few spans."""

import random
from itertools import pairwise

from agent_service.storage.search.index import SPANS, pairs, slices, spans

_LAST = 1_813_734_973_440_000_020


def _marks(id_: int) -> set[str]:
    """The spans that a message is in, as the index of PostgreSQL has them."""
    return {f"T{bits}x{id_ >> bits:x}" for bits in SPANS}


def _ids(draw: random.Random) -> list[int]:
    """Ids of messages that came at any pace, the latest first."""
    ids = [_LAST]
    for _ in range(draw.randrange(300)):
        ids.append(ids[-1] - draw.randrange(1, 1 << draw.choice((3, 20, 35, 44, 52))))
    return ids


def test_each_message_is_in_one_slice_and_in_a_span_of_it() -> None:
    draw = random.Random(5)
    for _ in range(200):
        ids = _ids(draw)
        found = list(slices(ids[-1], ids[0], ids[draw.randrange(3) :: 3], draw.randrange(1, 5)))
        assert all(one == other + 1 for (one, _), (_, other) in pairwise(found))
        assert (found[-1][0], found[0][1]) == (ids[-1], ids[0])
        for id_ in ids:
            at = next(part for part in found if part[0] <= id_ <= part[1])
            assert _marks(id_) & set(spans(*at))


def test_a_slice_is_told_by_few_spans() -> None:
    ids = [_LAST - 40_960_000_000 * number for number in range(100_000)]
    told = [len(spans(*part)) for part in slices(ids[-1], ids[0], ids[500::1021], 1)]
    assert len(told) < 20
    assert sum(told) < 8 * len(told)


def test_a_strange_date_makes_no_long_list() -> None:
    assert spans(0, _LAST) == spans(0, (1 << 63) - 1) == []
    assert len(spans(_LAST - (1 << 53) * 50, _LAST)) < 200


def test_pairs_are_those_of_short_words_in_a_row() -> None:
    assert pairs("in the end") == [*pairs("in the"), *pairs("the end")]
    assert len(pairs("in the")) == 1
    assert pairs("in the in the") == [*pairs("in the"), *pairs("the in")]
    assert pairs("in kubernetes the docker") == pairs("the") == pairs("") == []
