"""A command's output is sent once, in order, and again only as far as it was not acknowledged."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_service.supervisor.frames import (
    MAX_DATA_BYTES,
    MAX_OUTPUT_BYTES,
    STDIN_WINDOW_BYTES,
    FrameError,
)
from executor_service.supervisor.streams import InputStream, OutputStream


class Reader:
    """An executor that takes what it is sent and checks that it fits."""

    def __init__(self, stream: OutputStream) -> None:
        self.stream = stream
        self.data = b""

    def take(self, most: int) -> None:
        for _ in range(most):
            chunk = self.stream.next_chunk()
            if chunk is None:
                return
            offset, data = chunk
            assert offset == len(self.data)
            assert data
            self.data += data


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 6000)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(0, 100)),
        st.tuples(st.just("reconnect"), st.integers(0, 100)),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_every_byte_comes_once(steps: list[tuple[str, int]]) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    stream, written, saved = OutputStream(1, ours), b"", b""
    reader = Reader(stream)
    for what, amount in steps:
        if what == "write":
            data = bytes((len(written) + i) % 251 for i in range(amount))
            os.write(theirs, data)
            written += data
            while stream.read():
                pass
        elif what == "take":
            reader.take(amount)
        else:
            upto = len(saved) + (len(reader.data) - len(saved)) * amount // 100
            saved = reader.data[:upto]
            stream.ack(upto)
            if what == "reconnect":
                stream.rewind()
                reader.data = saved
    os.close(theirs)
    reader.take(10_000)
    assert reader.data == written
    assert stream.all_sent
    assert not stream.read()
    assert not stream.idle
    stream.ack(len(written))
    assert stream.cost_bytes == 0
    os.close(ours)


def test_a_pipe_that_is_filled_takes_more_from_then_on() -> None:
    ours, theirs = os.pipe()
    for fd in (ours, theirs):
        os.set_blocking(fd, False)
    stream = OutputStream(1, ours)
    os.write(theirs, b"a little")
    stream.read()
    small = os.write(theirs, bytes(MAX_OUTPUT_BYTES))
    stream.read()
    large = os.write(theirs, bytes(MAX_OUTPUT_BYTES))
    stream.read()
    assert (small, large) == (MAX_DATA_BYTES, MAX_OUTPUT_BYTES)
    assert stream.end == 8 + small + large
    os.close(ours)
    os.close(theirs)


def test_an_acknowledgement_of_the_future_is_cut() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"12345")
    stream = OutputStream(1, ours)
    stream.read()
    stream.ack(99)
    assert stream.acked == 0
    reader = Reader(stream)
    reader.take(9)
    assert reader.data == b"12345"
    os.close(ours)
    os.close(theirs)


def test_tiny_writes_cost_more_than_their_bytes() -> None:
    ours, theirs = os.pipe()
    stream = OutputStream(1, ours)
    for _ in range(100):
        os.write(theirs, b"x")
        stream.read()
        stream.next_chunk()
    assert stream.cost_bytes > 100 * 100
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("given", "marks"), [(b"", b"\x04"), (b"a line\n", b"\x04"), (b"half a line", b"\x04\x04")]
)
def test_the_input_of_a_terminal_ends_even_within_a_line(given: bytes, marks: bytes) -> None:
    theirs, ours = os.pipe()
    stream = InputStream(ours, is_terminal=True)
    stream.receive(0, memoryview(given), ends=False)
    stream.receive(len(given), memoryview(b""), ends=True)
    assert stream.write()
    assert os.read(theirs, 100) == given + marks
    os.close(ours)
    os.close(theirs)


def test_input_is_taken_once_without_gaps_and_within_bounds() -> None:
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    stream = InputStream(ours, is_terminal=False)
    stream.receive(0, memoryview(b"hello "), ends=False)
    stream.receive(0, memoryview(b"hello world"), ends=True)
    assert stream.received == 11
    assert not stream.write()
    assert os.read(theirs, 100) == b"hello world"
    assert stream.written == 11
    with pytest.raises(FrameError):
        stream.receive(12, memoryview(b"x"), ends=False)
    with pytest.raises(FrameError):
        stream.receive(11, memoryview(bytes(STDIN_WINDOW_BYTES + 1)), ends=False)
    os.close(ours)
    os.close(theirs)
