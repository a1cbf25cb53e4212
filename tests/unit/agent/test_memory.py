"""Memories: their entries and their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_service.profiles.memory.entries import (
    Action,
    Limits,
    MemoryRefused,
    Operation,
    Target,
    apply,
    is_drifted,
    parse,
    render,
)
from agent_service.records.errors import ModelNotConfigured

LIMIT = 40
TEXT = "likes tea\n§\nlives in Rome"

ADD, REPLACE, REMOVE = Action


def test_entries_are_trimmed_and_each_is_there_once() -> None:
    assert parse("") == []
    assert parse("\ufeffa\n§\n  b \n§\na\n§\n") == ["a", "b"]
    assert parse("costs 5 § in all, or §\nmore") == ["costs 5 § in all, or §\nmore"]


@pytest.mark.parametrize(
    ("text", "drifted"),
    [("", False), (TEXT, False), (f"{TEXT}\n", False), ("a\n§\na", True), ("a\n§\n\n b", True)],
)
def test_what_a_person_may_do_to_the_file(text: str, drifted: bool) -> None:
    assert is_drifted(text) is drifted


@pytest.mark.parametrize(
    ("operations", "after"),
    [
        ([Operation(ADD, " drinks ")], f"{TEXT}\n§\ndrinks"),
        ([Operation(ADD, "likes tea")], TEXT),
        ([Operation(REPLACE, "likes coffee", "tea")], "likes coffee\n§\nlives in Rome"),
        ([Operation(REPLACE, "likes tea", "Rome")], "likes tea"),
        ([Operation(REMOVE, old_text="Rome")], "likes tea"),
        ([Operation(REMOVE, old_text="tea"), Operation(REMOVE, old_text="Rome")], ""),
        (
            [Operation(ADD, "an entry in its place"), Operation(REMOVE, old_text="tea")],
            "lives in Rome\n§\nan entry in its place",
        ),
    ],
)
def test_operations_are_done_in_order_and_judged_at_the_end(
    operations: list[Operation], after: str
) -> None:
    assert apply(TEXT, operations, LIMIT) == after


@pytest.mark.parametrize(
    ("operations", "told"),
    [
        ([], "nothing to do"),
        ([Operation(ADD, "  ")], "needs content"),
        ([Operation(ADD, "a\0")], "needs content"),
        ([Operation(ADD, "a\n§\nb")], "separates entries"),
        ([Operation(REMOVE)], "old_text"),
        ([Operation(REMOVE, old_text="milk")], "No entry has 'milk'.*\n- likes tea\n- lives in"),
        ([Operation(REPLACE, "x", "li")], "Several entries have 'li'.*\n- likes tea\n- lives in"),
        ([Operation(ADD, "x" * 20)], f"48 of {LIMIT} characters.*\n- likes tea\n- lives in Rome"),
        (
            [Operation(ADD, "x"), Operation(REMOVE, old_text="milk")],
            "^None of the operations was done, as number 2 cannot be. No entry has 'milk'",
        ),
    ],
)
def test_what_cannot_be_done_says_why_and_what_there_is(
    operations: list[Operation], told: str
) -> None:
    with pytest.raises(MemoryRefused, match=rf"(?s){told}"):
        apply(TEXT, operations, LIMIT)


def test_what_is_too_long_already_can_be_made_shorter_bit_by_bit() -> None:
    text = render([letter * 30 for letter in "abc"])
    shorter = apply(text, [Operation(REMOVE, old_text="a")], LIMIT)
    assert parse(shorter) == ["b" * 30, "c" * 30]
    with pytest.raises(MemoryRefused, match="of 40 characters"):
        apply(text, [Operation(REPLACE, "d" * 30, "a")], LIMIT)


_TEXTS = st.text(st.sampled_from("ab§ \n"), max_size=8)


_OPERATIONS = st.builds(Operation, st.sampled_from(Action), _TEXTS, _TEXTS)


@given(st.lists(_OPERATIONS, min_size=1, max_size=6))
def test_whatever_is_asked_for_is_done_well_or_not_at_all(operations: list[Operation]) -> None:
    try:
        after = apply("aa\n§\nbb", operations, LIMIT)
    except MemoryRefused:
        return
    assert len(after) <= LIMIT
    assert not is_drifted(after)
    assert render(parse(after)) == after


USUAL = {Target.MEMORY: 2200, Target.USER: 1375}


@pytest.mark.parametrize(
    ("window", "memory", "user"),
    [(8_000, 2200, 1375), (128_000, 2200, 1375), (256_000, 4400, 2750), (2_000_000, 8800, 5500)],
)
async def test_they_grow_with_the_window_and_never_shrink(
    window: int, memory: int, user: int
) -> None:
    async def tokens() -> int:
        return window

    assert await Limits(USUAL, tokens).now() == {Target.MEMORY: memory, Target.USER: user}
    assert await Limits(USUAL).now() == USUAL


async def test_without_a_model_they_are_the_usual_ones() -> None:
    async def tokens() -> int:
        raise ModelNotConfigured("none")

    assert await Limits(USUAL, tokens).now() == USUAL
