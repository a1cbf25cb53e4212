"""Where a change belongs, also where its white space differs from the file's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_service.tools.patching.matcher import NotThere, Unclear, replace

LINES = st.lists(st.text("ab \t", max_size=4), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a b c", "b", "x", "a x c"),
        ("a  \nb\nc", "a\nb", "x", "x\nc"),
        ("a\nb\nc\n", "a  \nb \n", "x\n", "x\nc\n"),
        ("if a:\n    b\n    c\n", "b\nc", "d\ne", "if a:\n    d\n    e\n"),
        ("a\nb\n", "  a\n  b\n", "  a\n\n    c\n", "a\n\n  c\n"),
        ("\ta\n\t\tb\n", "a\n\tb\n", "c\n", "\tc\n"),
        ("a \nb", "a\nb\n", "c\n", "c"),
        ("a \nb\nc\n", "a\nb\n", "", "c\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"),
        ("a\r\nb\nc\n", "a\nb\n", "x\n", "x\nc\n"),
    ],
)
def test_what_is_meant_is_found(text: str, old: str, new: str, after: str) -> None:
    assert replace(text, old, new, every=False) == after


@pytest.mark.parametrize(
    ("text", "old"),
    [("a\na", "a"), ("aaa", "aa"), ("  a\n  b\n    a\n    b", "a\nb"), ("a \nb\na\t\nb", "a\nb")],
)
def test_what_could_mean_several_places_is_not_guessed(text: str, old: str) -> None:
    with pytest.raises(Unclear, match="2 times"):
        replace(text, old, "x", every=False)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("a\nb", "c", "x"),
        ("  a\n b", "a\nb", "x"),
        ("\ta\n  b", "  a\n  b", "x"),
        ("a b\nc", "a  b\nc", "x"),
        ("a\nb", "  a\n  b", "less"),
        ("a\n\n", " \n", "x"),
        ("longer a\nb", "a\nb c", "x"),
    ],
)
def test_what_differs_otherwise_is_not_there(text: str, old: str, new: str) -> None:
    with pytest.raises(NotThere):
        replace(text, old, new, every=False)


def test_a_strict_reading_wins_over_a_loose_one() -> None:
    assert replace("  a\n  b\na\nb", "a\nb\n", "x\n", every=True) == "  a\n  b\nx"
    assert replace("a \nb\n\n  a\n  b\n", "a\nb\n", "x\n", every=False) == "x\n\n  a\n  b\n"


def test_every_place_gets_its_own_indentation() -> None:
    text = "a \nb\n\na\t\nb\n"
    assert replace(text, "a\nb", "x", every=True) == "x\n\nx\n"
    assert replace(" a\n b\n  a\n  b\n", "a\nb", "x\ny", every=True) == " x\n y\n  x\n  y\n"


@given(LINES, st.data(), st.text(" \t", max_size=3))
def test_lines_of_the_file_are_found_however_they_are_indented(
    lines: list[str], data: st.DataObject, more: str
) -> None:
    """Replacing lines by themselves changes at most white space at their ends."""
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first + 1, len(lines)))
    part = [more + line if line.strip() else line for line in lines[first:last]]
    old = "\n".join(part) + "\n"
    if not old.strip():
        return
    text = "\n".join(lines) + "\n"
    after = replace(text, old, old, every=True)
    assert [line.rstrip() for line in after.split("\n")] == [
        line.rstrip() for line in text.split("\n")
    ]
