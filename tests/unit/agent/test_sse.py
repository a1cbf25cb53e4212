"""Server-sent events, however the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_service.models.provider import MAX_EVENT_BYTES, EventTooLarge, SSEDecoder

STREAM = (
    b": a comment\r\n\r\n"
    b'event: message\r\nid: 1\r\ndata: {"a": 1}\r\n\r\n'
    b"data:no space\n\n"
    b"data:  two spaces\n\n"
    b"data: several\ndata: lines\n\n"
    b"\n\n"
    b"data:\n\n"
    b"data: \xc3\xbc\n\n"
)
EVENTS = [b'{"a": 1}', b"no space", b" two spaces", b"several\nlines", b"", b"\xc3\xbc"]


@given(cuts=st.sets(st.integers(0, len(STREAM))))
def test_cuts_change_nothing(cuts: set[int]) -> None:
    decoder = SSEDecoder()
    events: list[bytes] = []
    for start, end in pairwise(sorted({0, len(STREAM), *cuts})):
        events += decoder.feed(STREAM[start:end])
    assert events == EVENTS
    assert decoder.flush() == []


def test_an_event_comes_as_soon_as_it_is_whole() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: one\n\ndata: tw") == [b"one"]
    assert decoder.feed(b"o\n") == []
    assert decoder.feed(b"\n") == [b"two"]


def test_events_need_no_blank_line_between_them() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b'data: {"a": 1}\ndata: {"b":\ndata: 2}\ndata: [DONE]\n\n') == [
        b'{"a": 1}',
        b'{"b":\n2}',
        b"[DONE]",
    ]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_last_event_needs_no_blank_line(end: bytes) -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: last" + end) == []
    assert decoder.flush() == [b"last"]


@pytest.mark.parametrize("line", [b"x" * 65_536, b"data: " + b"x" * 65_536 + b"\n"])
def test_an_event_without_end_is_refused(line: bytes) -> None:
    decoder = SSEDecoder()
    for _ in range(MAX_EVENT_BYTES // len(line) - 1):
        assert decoder.feed(line) == []
    with pytest.raises(EventTooLarge):
        decoder.feed(line * 3)
