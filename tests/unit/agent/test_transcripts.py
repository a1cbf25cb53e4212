"""Transcripts of old homes are read leniently, and written in the same shape."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_service.records import transcripts
from agent_service.records.transcripts import (
    CLOSING,
    NO_RESULT,
    SEPARATOR,
    Transcript,
    TranscriptMessage,
)
from services.errors import InvalidArgument

NOW = datetime(2026, 5, 1, tzinfo=UTC)
CALL = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}


def parse(document: Any, name: str = "20250102_030405_abcdef") -> Transcript:
    return transcripts.parse(json.dumps(document).encode(), name, NOW)


def written(read: Transcript) -> dict[str, Any]:
    parts = SEPARATOR.join(transcripts.render(said) for said in read.messages)
    head = transcripts.opening(read.session_id, read.model, read.title)
    document: dict[str, Any] = json.loads(head + parts + CLOSING)
    return document


def test_what_was_written_is_read_again() -> None:
    document = {
        "session_id": "20250102_030405_abcdef",
        "model": "some/model",
        "messages": [
            {"role": "user", "content": "hi “there”", "timestamp": "2025-01-02T03:04:05+00:00"},
            {
                "role": "assistant",
                "content": None,
                "timestamp": "2025-01-02T03:04:06+00:00",
                "tool_calls": [CALL],
                "reasoning": "hm",
            },
            {
                "role": "tool",
                "content": "out",
                "timestamp": "2025-01-02T03:04:07.500000+00:00",
                "tool_call_id": "c1",
            },
            {"role": "assistant", "content": "done", "timestamp": "2025-01-02T03:04:08+00:00"},
        ],
    }
    read = parse(document)
    assert written(read) == document
    assert read.messages[1].reasoning == "hm"


def test_times_may_be_numbers_texts_or_missing() -> None:
    said = [
        {"role": "user", "content": "a", "timestamp": 1735787045},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c", "timestamp": 1735787045123.0},
        {"role": "assistant", "content": "d", "timestamp": "never"},
        {"role": "user", "content": "e", "timestamp": 1e300},
    ]
    times = [one.created_at for one in parse({"messages": said}).messages]
    assert times == sorted(times)
    assert times[0] == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert {moment.year for moment in times} == {2025}
    no_times = parse({"messages": [{"role": "user", "content": "a"}]}, "note")
    assert no_times.session_id == "note"
    assert no_times.messages[0].created_at.date() == NOW.date()
    named = parse({"messages": [{"role": "user", "content": "a"}]}).messages[0].created_at
    assert abs(named - datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)) < timedelta(days=1), "local time"


def test_each_call_has_one_result() -> None:
    other = {"id": "c2", "name": "todo", "arguments": {"a": 1}}
    said = [
        {"role": "system", "content": "an old prompt"},
        {"role": "tool", "content": "of nothing", "tool_call_id": "c0"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "", "tool_calls": [CALL, other]},
        {"role": "tool", "content": "out", "tool_call_id": "c1"},
        {"role": "user", "content": "and?"},
        "not a message",
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
    ]
    messages = [one.content for one in parse({"messages": said}).messages]
    assert [m["role"] for m in messages] == [
        *("user", "assistant", "tool", "tool", "user", "assistant", "tool")
    ]
    assert messages[0]["content"] == "look\n[image that was not kept]"
    assert messages[1]["tool_calls"][1]["function"] == {"name": "todo", "arguments": '{"a": 1}'}
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == ["c1", "c2", "c1"]
    assert messages[3]["content"] == messages[6]["content"] == NO_RESULT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"messages": 1}',
        b'{"messages": []}',
        b'{"messages": [1, null]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_transcript_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        transcripts.parse(data, "file", NOW)


def test_strange_ids_are_made_usable() -> None:
    said = [{"role": "user", "content": "a\0b"}]
    read = parse({"session_id": "../a b\n", "title": " My\n plan ", "messages": said})
    assert read.session_id == ".._a_b"
    assert read.title == "My plan"
    assert read.messages[0] == TranscriptMessage(
        {"role": "user", "content": "ab"}, "", read.messages[0].created_at
    )
    assert written(read)["title"] == "My plan"
