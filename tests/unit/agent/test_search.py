"""The search in conversations: words, queries, slices and pairs."""

import random
import re
import sys
from itertools import pairwise

import pytest

from agent_service.records.search_query import (
    MAX_WORDS,
    SPOKEN_CHARS,
    TOOL_HEAD_CHARS,
    TOOL_TAIL_CHARS,
    WORD_CHARS,
    excerpt,
    parse,
    searchable,
    terms,
    words,
)
from agent_service.storage.search.index import SPANS, pairs, slices, spans
from services.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run the Tests!", ["run", "the", "tests"]),
        ("src/foo_bar.py", ["src", "foo", "bar", "py"]),
        ("Café ÉCOLE Straße", ["cafe", "ecole", "strasse"]),
        ("cafe\u0301", ["cafe"]),
        (
            "\u2119\U0001d410 \u1d3e \ufb01 \u2167 \u212a \u1e9b\u0323",
            ["pq", "p", "fi", "viii", "k", "s"],
        ),
        ("今日は天気", ["今", "日", "は", "天", "気"]),
        ("“quotes” — dashes", ["quotes", "dashes"]),
        ("\0 \ud800 ok", ["ok"]),
        ("x" * 500, ["x" * WORD_CHARS]),
        ("!?", []),
    ],
)
def test_words_are_the_same_however_they_are_written(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert terms(text) == " ".join(expected)


def test_no_letter_makes_a_capital() -> None:
    letters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    assert not re.search("[A-Z]", terms(" ".join(letters)))


def test_a_message_is_found_by_what_it_says_and_calls() -> None:
    call = {"id": "1", "function": {"name": "terminal", "arguments": '{"command": "pytest -q"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert words(searchable(message)) == ["terminal", "command", "pytest", "q"]
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert words(searchable({"role": "user", "content": parts})) == ["look"]


def test_of_a_long_message_a_part_is_indexed() -> None:
    listing = "a" * TOOL_HEAD_CHARS + " middle " + "z" * TOOL_TAIL_CHARS
    result = searchable({"role": "tool", "content": listing})
    assert "middle" not in result
    assert result.startswith("a")
    assert result.endswith("z")
    assert len(searchable({"role": "user", "content": "word " * 100_000})) == SPOKEN_CHARS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("docker network", (("docker",), ("network",))),
        ('"docker network" up', (("docker network",), ("up",))),
        ("docker OR podman network", (("docker", "podman"), ("network",))),
        ("OR docker OR", (("docker",),)),
        ("tests/unit", (("tests unit",),)),
        ('"never closed', (("never closed",),)),
        ("or", (("or",),)),
        ("NEAR(a b) AND -c* ^d {e}:f", (("near a",), ("b",), ("and",), ("c",), ("d",), ("e f",))),
    ],
)
def test_a_query_is_words_phrases_and_or(text: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert parse(text).groups == expected


@pytest.mark.parametrize("text", ["", "   ", '""', "!?*", "OR", "x" * 1001, "a " * (MAX_WORDS + 1)])
def test_a_query_without_words_or_with_too_many_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(text)
    assert refused.value.fields.keys() == {"query"}


def test_no_query_has_anything_but_words() -> None:
    draw = random.Random(4)
    signs = "abzé漢\"'*:^(){}[]-+~&|!<>\\/;%_@#$\0\n\t OR AND NOT NEAR"
    for _ in range(5000):
        text = "".join(draw.choice(signs) for _ in range(draw.randrange(40)))
        try:
            query = parse(text)
        except InvalidArgument:
            continue
        assert all(word.isalnum() for word in query.words), text


def test_an_excerpt_is_around_the_first_of_the_words() -> None:
    text = f"{'before ' * 100}the Needle\nis here {'after ' * 100}"
    shown = excerpt(text, frozenset({"needle"}), 120)
    assert "the Needle is here" in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert excerpt("short", frozenset({"absent"}), 120) == "short"


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
