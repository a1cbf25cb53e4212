"""What a request says besides the stored messages: the day, and an answer between messages."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import CodeType, FrameType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent_service.models.wires.chat_completions import ChatCompletions
from agent_service.models.wires.wire import Dialect
from agent_service.records.model import (
    ModelMessage,
    ModelRequest,
    assistant_message,
    encoded,
    restore_attached,
)
from agent_service.records.sent_history import sent_history as history
from agent_service.records.sent_history import user_message

PROMPT = {"role": "system", "content": "Be kind.\n\nCurrent time: 2026-01-05T23:30:00+00:00"}
SAID = {"role": "assistant", "content": "Well."}
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "done"}
NO_ANSWER = {"role": "assistant", "content": "[No answer was given here.]"}
NO_MESSAGE = {"role": "user", "content": "[Go on.]"}


def asked(text: Any, day: int = 5, hour: int = 23) -> dict[str, Any]:
    return user_message(text, datetime(2026, 1, day, hour, 59, 5, tzinfo=UTC))


def sent(*messages: dict[str, Any], prompt: dict[str, Any] = PROMPT, zone: Any = UTC) -> list[Any]:
    first, *rest = history([encoded(prompt), *map(encoded, messages)], zone)
    assert json.loads(first) == prompt
    return [json.loads(each) for each in rest]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_day_that_the_prompt_tells_is_not_told_again() -> None:
    assert sent(asked("one"), SAID, asked("two")) == [user("one"), SAID, user("two")]


def test_the_first_message_of_a_later_day_tells_it() -> None:
    found = sent(asked("one"), SAID, asked("two", 6), SAID, asked("three", 6), SAID, asked("x", 9))
    assert found[2] == user("[Today is Tuesday, 2026-01-06.]\n\ntwo")
    assert found[4] == user("three")
    assert found[6] == user("[Today is Friday, 2026-01-09.]\n\nx")


def test_the_day_is_the_users() -> None:
    first, _, second = sent(asked("one"), SAID, asked("two", 6, 1), zone=ZoneInfo("Asia/Tokyo"))
    assert first == user("[Today is Tuesday, 2026-01-06.]\n\none")
    assert second == user("two")


def test_a_prompt_without_a_day_and_a_picture_get_it_too() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:"}}
    day = {"type": "text", "text": "[Today is Monday, 2026-01-05.]"}
    prompt = {"role": "system", "content": "Be kind."}
    assert sent(asked([picture]), prompt=prompt) == [user([day, picture])]


def test_words_that_look_like_the_time_of_a_message_are_words() -> None:
    text = 'x","sent_at":"2020-01-01T00:00:00+00:00"}'
    assert sent(user(text)) == [user(text)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("a"), user("b"), SAID], [user("a"), NO_ANSWER, user("b"), SAID]),
        (
            [user("a"), CALLS, RESULT, RESULT, user("b"), SAID],
            [user("a"), CALLS, RESULT, RESULT, NO_ANSWER, user("b"), SAID],
        ),
        (
            [SAID, user("a"), SAID, CALLS, RESULT, SAID],
            [NO_MESSAGE, SAID, user("a"), SAID, NO_MESSAGE, CALLS, RESULT, SAID],
        ),
        (
            [user("a"), CALLS, RESULT, CALLS, RESULT, SAID],
            [user("a"), CALLS, RESULT, CALLS, RESULT, SAID],
        ),
    ],
)
def test_user_and_assistant_take_turns(messages: list[Any], expected: list[Any]) -> None:
    assert sent(*messages) == expected


def test_what_was_sent_stays_as_more_is_said() -> None:
    said = [asked("a"), asked("a"), CALLS, RESULT, asked("b", 6), SAID, asked("c", 7), SAID]
    whole = sent(*said)
    for count in range(len(said)):
        part = sent(*said[:count])
        assert whole[: len(part)] == part


def json_calls(work: Callable[[], object]) -> int:
    counted = {json.loads.__code__, json.dumps.__code__}
    calls: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in counted:
            calls.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return len(calls)


def test_a_long_history_is_not_parsed_again_for_each_request() -> None:
    thought = {"reasoning_content": "I think of it. " * 500}
    said = ModelMessage("Well.", "", (), None, "stop", "m", "p", extra=thought, source="here")
    messages = [encoded(asked("one"))] + [encoded(assistant_message(said))] * 200
    wire, demanding = ChatCompletions(), Dialect(bare_answers=False)

    def send() -> bytes:
        sent = history([encoded(PROMPT), *messages], UTC)
        own = [restore_attached(each, "here") for each in sent]
        return wire.body(ModelRequest("m", own), demanding)

    body = json.loads(send())
    assert body["messages"][-1] == {"role": "assistant", "content": "Well."} | thought
    assert json_calls(send) <= 2, "only the first message is changed: it says the day"
