"""Which bytes of a command's output stay on disk."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from executor_service.execs.segments import STREAMS, Layout, Segment, SpoolLimits

LIMITS = SpoolLimits(segment_bytes=10, first_segments=2, segments=5)


def put(layout: Layout, stream: int, offset: int, size: int) -> list[tuple[int, int, int]]:
    """Where bytes went: which segments, where in them, and how many."""
    placed = layout.place(stream, offset, memoryview(bytes(size)))
    return [(segment.start, segment.size, len(piece)) for segment, piece in placed]


def stored(layout: Layout, stream: int, end: int) -> Iterator[int]:
    """The offsets that are there."""
    for offset in range(end):
        segment = layout.find(stream, offset)
        if segment is not None and segment.start <= offset:
            yield offset


def test_bytes_go_where_the_ones_before_ended() -> None:
    layout = Layout(LIMITS)
    put(layout, 1, 0, 7)
    assert put(layout, 1, 7, 15) == [(0, 7, 3), (10, 0, 10), (20, 0, 2)]
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


def test_the_end_of_both_streams_stays() -> None:
    layout = Layout(LIMITS)
    put(layout, 2, 0, 33)
    put(layout, 1, 0, 33)
    # Its own beginning is kept of each, and what is being written.
    assert [(d.stream, d.start) for d in layout.surplus()] == [(1, 20), (2, 20)]
    assert layout.surplus() == []
    assert layout.shrink() is None
    assert list(stored(layout, 2, 33)) == [*range(20), *range(30, 33)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 35)), max_size=60))
def test_a_layout_is_found_again(writes: list[tuple[int, int]]) -> None:
    layout, ends = Layout(LIMITS), {1: 0, 2: 0}
    files: dict[str, Segment] = {}
    for stream, size in writes:
        for segment, _ in layout.place(stream, ends[stream], memoryview(bytes(size))):
            files[segment.name] = segment
        ends[stream] += size
        for segment in layout.surplus():
            del files[segment.name]
    again = Layout(LIMITS, reversed(files.values()))
    assert again.size == layout.size <= 60
    for stream in STREAMS:
        end = ends[stream]
        assert again.end(stream) == layout.end(stream)
        assert list(stored(again, stream, end)) == list(stored(layout, stream, end))
