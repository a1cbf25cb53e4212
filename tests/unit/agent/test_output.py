"""What of a command's output the model is told, and what a person sees meanwhile."""

import pytest

from agent_service.tools.output import (
    HEAD_BYTES,
    LIMIT_BYTES,
    PROGRESS_BYTES,
    PROGRESS_PAUSE_S,
    CommandOutput,
    OutputWindow,
)


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES, HEAD_BYTES + 1, LIMIT_BYTES])
def test_output_within_the_limit_is_whole(size: int) -> None:
    window = OutputWindow()
    data = bytes(65 + index % 26 for index in range(size))
    for start in range(0, size, 777):
        window.add(data[start : start + 777])
    assert window.text() == data.decode()


@pytest.mark.parametrize("piece", [1000, 30_000, 3_000_000])
def test_of_a_flood_head_and_tail_are_kept(piece: int) -> None:
    window = OutputWindow()
    total = 9_000_000
    for start in range(0, total, piece):
        window.add(b"".join(b"%09d\n" % number for number in range(start, start + piece, 10)))
    text = window.text()
    assert text.startswith("000000000\n000000010\n")
    assert text.rstrip().endswith(f"{total - 10:09d}")
    assert f"{total - LIMIT_BYTES:,} bytes left out" in text
    assert len(text) < LIMIT_BYTES + 100


def test_what_never_came_is_left_out_too() -> None:
    window = OutputWindow()
    for piece in (b"first\n", bytes(LIMIT_BYTES), b"\nlast"):
        window.add(piece)
    written = 200_000_011
    assert f"{written - LIMIT_BYTES:,} bytes left out" in window.text(written)
    short = OutputWindow()
    short.add(b"the end")
    assert short.text(written) == f"the end\n[… {written - 7:,} bytes left out …]\n"
    assert short.text(7) == "the end"


def test_progress_is_shown_at_a_pace_that_one_can_follow() -> None:
    shown: list[str] = []
    now = 100.0
    output = CommandOutput(shown.append, lambda: now)
    for number in range(5):
        output.add(b"%d" % number)
    assert shown == ["0"]
    now += PROGRESS_PAUSE_S
    output.add(b"5")
    assert shown == ["0", "12345"]
    output.add(b"6")
    assert output.text() == "0123456"
    assert shown[-1] == "6"
    for _ in range(2):
        output.add(b"x" * PROGRESS_BYTES)
    output.text()
    assert shown[-1] == f"[… {PROGRESS_BYTES:,} bytes are not shown …]\n" + "x" * PROGRESS_BYTES
