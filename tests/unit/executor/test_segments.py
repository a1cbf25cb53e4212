"""Which bytes of a command's output stay on disk."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from executor_service.output.segments import STREAMS, CommandLimits, Layout, Segment

LIMITS = CommandLimits(segment_bytes=10, first_segments=2, segments=5)


def put(layout: Layout, stream: int, offset: int, size: int) -> None:
    list(layout.place(stream, offset, size))


def stored(layout: Layout, stream: int, end: int) -> Iterator[int]:
    """The offsets that are there."""
    for offset in range(end):
        segment = layout.find(stream, offset)
        if segment is not None and segment.start <= offset:
            yield offset


def test_bytes_go_where_the_ones_before_ended() -> None:
    layout = Layout(LIMITS)
    put(layout, 1, 0, 7)
    placed = list(layout.place(1, 7, 15))
    assert [(p.segment.start, p.position, p.size) for p in placed] == [
        (0, 7, 3),
        (10, 0, 10),
        (20, 0, 2),
    ]
    assert (layout.size, layout.end(1), layout.end(2)) == (22, 22, 0)


def test_a_gap_begins_a_file() -> None:
    layout = Layout(LIMITS)
    put(layout, 1, 0, 3)
    put(layout, 1, 8, 4)
    assert list(stored(layout, 1, 12)) == [0, 1, 2, 8, 9, 10, 11]


def test_the_beginning_and_the_end_stay() -> None:
    layout = Layout(LIMITS)
    for offset in range(0, 200, 10):
        put(layout, 1, offset, 10)
        layout.surplus()
    assert list(stored(layout, 1, 200)) == [*range(20), *range(170, 200)]
    assert layout.size == 50


def test_what_came_first_goes_first_of_both_streams() -> None:
    layout = Layout(LIMITS)
    put(layout, 2, 0, 3)
    for offset in range(0, 40, 10):
        put(layout, 1, offset, 10)
    put(layout, 2, 3, 10)
    dropped = layout.surplus()
    # The rest of standard error's first file and all of the one that came last are kept.
    assert [(d.stream, d.start) for d in dropped] == [(1, 10)]
    assert list(stored(layout, 2, 13)) == list(range(13))


def test_what_is_being_written_is_never_given_up() -> None:
    layout = Layout(LIMITS)
    for offset in range(0, 50, 10):
        put(layout, 1, offset, 10)
    given_up = [layout.shrink(), layout.shrink()]
    assert [s and s.start for s in given_up] == [20, None]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 35)), max_size=60))
def test_a_layout_is_found_again(writes: list[tuple[int, int]]) -> None:
    layout, ends = Layout(LIMITS), {1: 0, 2: 0}
    files: dict[str, tuple[int, int]] = {}
    for turn, (stream, size) in enumerate(writes):
        for placed in layout.place(stream, ends[stream], size):
            files[placed.segment.name] = (turn, placed.segment.size + placed.size)
        ends[stream] += size
        for segment in layout.surplus():
            del files[segment.name]
    by_age = sorted(files, key=lambda name: files[name][0])
    found = [Segment.found(name, files[name][1]) for name in by_age]
    again = Layout(LIMITS, (segment for segment in found if segment))
    assert again.size == layout.size <= 50
    for stream in STREAMS:
        end = ends[stream]
        assert again.end(stream) == layout.end(stream)
        assert list(stored(again, stream, end)) == list(stored(layout, stream, end))


def test_strange_files_are_none_of_ours() -> None:
    assert Segment.found("1-20-last", 3) == Segment(1, 20, False, 3)
    for name in ("", "3-0-last", "1-x-last", "1-0", "x"):
        assert Segment.found(name, 1) is None
