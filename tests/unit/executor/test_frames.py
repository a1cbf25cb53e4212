"""Frames: whatever is packed is read again however it is cut, and nothing else is."""

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_service.supervisor import frames
from executor_service.supervisor.frames import FrameError, FrameReader

MAX_BYTES = 1000
FRAMES = st.lists(
    st.tuples(
        st.sampled_from(sorted(frames.REPLIES)),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=MAX_BYTES),
    ),
    max_size=8,
)


def reader() -> FrameReader:
    return FrameReader(frames.REPLIES, MAX_BYTES)


def read(reader: FrameReader, data: bytes) -> list[tuple[int, int, bytes]]:
    return [(kind, ident, bytes(payload)) for kind, ident, payload in reader.feed(data)]


@given(FRAMES, st.data())
def test_frames_survive_any_cutting(
    sent: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(frames.pack(*frame) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    one = reader()
    received: list[tuple[int, int, bytes]] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += read(one, stream[start:end])
    assert received == sent


@given(FRAMES.filter(bool), st.data())
def test_a_changed_byte_is_noticed(sent: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    stream = bytearray(b"".join(frames.pack(*frame) for frame in sent))
    place = data.draw(st.integers(0, len(stream) - 1))
    stream[place] ^= data.draw(st.integers(1, 255))
    received: list[tuple[int, int, bytes]] = []
    one = reader()
    try:
        for kind, ident, payload in one.feed(bytes(stream)):
            received.append((kind, ident, bytes(payload)))
    except FrameError:
        pass
    assert len(received) < len(sent)
    assert received == sent[: len(received)]


LONG_BYTES = 100_000


def taken(stream: bytes) -> list[bytes]:
    """The payloads that are believed before something is not."""
    received: list[bytes] = []
    try:
        for _, _, payload in FrameReader(frames.REPLIES, LONG_BYTES).feed(stream):
            received.append(bytes(payload))
    except FrameError:
        pass
    return received


@given(st.integers(0, LONG_BYTES), st.integers(0, 2000), st.integers(0, 2000))
def test_no_payload_is_taken_that_has_lost_bytes_or_got_foreign_ones(
    place: int, lost: int, foreign: int
) -> None:
    noise = random.Random(0).randbytes(LONG_BYTES)
    stream = frames.pack(frames.OUTPUT, 1, noise) + frames.pack(frames.OUTPUT, 1, noise)
    torn = stream[:place] + bytes(foreign) + stream[place + lost :]
    # Where as many are lost as are added, bytes have changed, and what comes after is in its place.
    assert lost == foreign or taken(torn) == []


@given(st.integers(0, 999), st.booleans(), st.integers(1, 255))
def test_a_changed_byte_at_an_end_of_a_long_payload_is_noticed(
    place: int, at_end: bool, change: int
) -> None:
    stream = bytearray(frames.pack(frames.OUTPUT, 1, bytes(LONG_BYTES)))
    stream[-1 - place if at_end else place] ^= change
    assert taken(bytes(stream)) == []


@given(st.binary(max_size=4000))
def test_noise_is_refused_or_waited_for(noise: bytes) -> None:
    try:
        assert read(reader(), noise) == []
    except FrameError:
        return
    # What is waited for is the rest of one frame of a known kind and a possible size.
    assert len(noise) < frames.HEADER.size or noise[4] in frames.REPLIES
    assert len(noise) < MAX_BYTES + frames.HEADER.size


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("!IBII", MAX_BYTES + 1, frames.PONG, 0, 0),
        struct.pack("!IBII", 2**32 - 1, frames.PONG, 0, 0),
        struct.pack("!IBII", 0, frames.HELLO, 0, zlib.crc32(struct.pack("!IBI", 0, 1, 0))),
        struct.pack("!IBII", 0, 0, 0, 0),
        struct.pack("!IBII", 0, frames.PONG, 0, 0),
    ],
    ids=["too long", "much too long", "the other direction", "no kind", "wrong checksum"],
)
def test_bad_headers_are_refused_before_their_payload(header: bytes) -> None:
    with pytest.raises(FrameError):
        read(reader(), header)


NESTED = b'{"a":' * 100_000


@pytest.mark.parametrize("text", [b"", b"[]", b"1", b"{", b"\xff", NESTED, b"9" * 9999])
def test_control_frames_are_objects(text: bytes) -> None:
    with pytest.raises(FrameError):
        frames.read_json(text)


def test_text_that_is_no_utf8_survives() -> None:
    packed = frames.pack_json(frames.PONG, 0, {"name": "\udcff木"})
    ((_, _, payload),) = FrameReader(frames.REPLIES, MAX_BYTES).feed(packed)
    assert frames.read_json(payload) == {"name": "\udcff木"}
