"""What is sent of a long conversation: the same from memory and from the database."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_service.config.sessions import CompressionConfig
from agent_service.models.fallback import USUAL, Route
from agent_service.prompt.compression import compressor, summary
from agent_service.prompt.compression.compressor import Compressor
from agent_service.records.commands import ContextCompressed
from agent_service.records.compression import (
    NOTHING,
    PLACEHOLDER,
    Conversation,
    apply_compression,
    headed,
    is_result,
    prune,
    summarised,
)
from agent_service.records.events import Notice
from agent_service.records.model import ModelEvent, ModelMessage, ModelRequest, encoded
from agent_service.records.model_errors import ModelError, ModelErrorKind
from agent_service.records.requests import Switched, TurnOptions, TurnRequest
from agent_service.records.turn_state import LiveTurn
from agent_service.records.usage import Usage
from services.database.leases import Lease
from tests.fakes.clock import ManualClock

SYSTEM = encoded({"role": "system", "content": "be good"})
NOTES = "Goal: tea."


def user(text: str) -> bytes:
    return encoded({"role": "user", "content": text})


def calls(*ids: str, path: str = "a.txt") -> bytes:
    function = {"name": "read_file", "arguments": json.dumps({"path": path})}
    made = [{"id": one, "type": "function", "function": function} for one in ids]
    return encoded({"role": "assistant", "content": None, "tool_calls": made})


def result(call_id: str, text: str) -> bytes:
    return encoded({"role": "tool", "tool_call_id": call_id, "content": text})


def conversation(turns: int, length: int = 2000) -> list[bytes]:
    """The system prompt, and turns with two calls each."""
    messages = [SYSTEM]
    for n in range(turns):
        messages += [
            user(f"question {n}"),
            calls(f"a{n}", f"b{n}", path=f"file{n}.txt"),
            result(f"a{n}", "x" * length),
            result(f"b{n}", "short"),
            encoded({"role": "assistant", "content": f"answer {n}"}),
        ]
    return messages


def check_pairs(messages: list[bytes]) -> None:
    """Every call has its results behind it, and every result its call before it."""
    asked: list[str] = []
    for fields in map(json.loads, messages):
        if fields["role"] == "tool":
            asked.remove(fields["tool_call_id"])
            continue
        assert not asked
        asked = [call["id"] for call in fields.get("tool_calls") or ()]
    assert not asked


def numbered(messages: list[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(messages[1:], 1))


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=5), st.integers(0, 6))
def test_what_is_kept_in_memory_is_what_the_database_gives(
    passes: list[tuple[int, bool]], protected: int
) -> None:
    stored = conversation(12, length=900)
    found = headed(Conversation(stored), protected)
    for cut, is_summary in passes:
        end = max(found.before_results(min(cut, len(found.messages))), found.first_kept)
        if is_summary and end > found.first_kept:
            found = summarised(found, end, summary.message(NOTES, [], ""))
        else:
            found = prune(found, end)
        # What is said meanwhile is behind all that, and not touched by it.
        stored = [*stored, user("and now?")]
        found = Conversation([*found.messages, stored[-1]], found.compression)
        assert list(found.messages) == [
            SYSTEM,
            *apply_compression(numbered(stored), found.compression),
        ]
        check_pairs(list(found.messages))


def test_nothing_changes_without_a_compression() -> None:
    stored = conversation(3)
    assert [SYSTEM, *apply_compression(numbered(stored), NOTHING)] == stored


class Answers:
    """A model that answers with the same, or fails."""

    def __init__(self, text: str = NOTES, error: ModelError | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self._text = text
        self._error = error

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        self.requests.append(request)
        yield self._events()

    async def _events(self) -> AsyncIterator[ModelEvent]:
        if self._error is not None:
            raise self._error
        used = Usage(prompt_tokens=10, completion_tokens=2)
        yield ModelMessage(self._text, "", (), used, "stop", "m", "p")


def a_turn(messages: list[bytes], **more: Any) -> LiveTurn:
    return LiveTurn(
        request=TurnRequest(
            *("trn_1", "default", "s", "", {"platform": "cli"}, "user"),
            options=TurnOptions("m", max_model_calls=9),
        ),
        platform="cli",
        lease=Lease("trn_1", "me", 1, datetime.now(UTC)),
        max_tokens=1000,
        messages=messages,
        message_count=len(messages) - 1,
        sequence=1,
        steps=1,
        started_at=datetime.now(UTC),
        approval_timeout=timedelta(minutes=1),
        session_usage=Usage(),
        **more,
    )


@dataclass(frozen=True, slots=True)
class Compressing:
    """A compressor and the model that it asks."""

    compressor: Compressor
    model: Answers

    def is_due(self, turn: LiveTurn, tools: bytes) -> bool:
        """Whether the turn's next request would be too long."""
        return self.compressor.is_due(turn, tools)


def compressing(
    model: Answers,
    window: int = 9000,
    clock: ManualClock | None = None,
    route: Route = USUAL,
    **config: Any,
) -> Compressing:
    async def plan_of(_session_id: str) -> str:
        return "[>] 1: make tea"

    made = Compressor(
        lambda _: window, plan_of, CompressionConfig(**config), route, clock or ManualClock()
    )
    return Compressing(made, model)


async def compressed(by: Compressing, turn: LiveTurn) -> tuple[ContextCompressed, list[str]]:
    notices: list[str] = []
    async for step in by.compressor.run(turn, b"", by.model):
        if isinstance(step, Notice):
            notices.append(step.text)
        elif isinstance(step, tuple):
            (fact,) = step
            assert isinstance(fact, ContextCompressed)
            return fact, notices
    raise AssertionError("nothing was made shorter")


async def test_old_results_are_left_out_first() -> None:
    model = Answers()
    turn, by = a_turn(conversation(12)), compressing(model)
    assert by.is_due(turn, b"")
    fact, notices = await compressed(by, turn)
    assert (model.requests, notices, fact.helped) == ([], [], True)
    assert fact.compression.summary == ""
    left = [json.loads(m)["content"] for m in fact.messages if is_result(m)]
    assert left[1:3] == ["short", PLACEHOLDER.format(count=2000)]
    assert left[-2:] == ["x" * 2000, "short"]
    check_pairs(list(fact.messages))


async def test_the_middle_is_summarised_where_that_is_not_enough() -> None:
    model = Answers()
    talk = [SYSTEM, *(m for n in range(60) for m in (user(f"q{n} " + "y" * 500), user("z" * 100)))]
    turn = a_turn(talk)
    fact, notices = await compressed(compressing(model), turn)
    assert notices
    assert fact.helped
    assert fact.usage.prompt_tokens == 10
    assert list(fact.messages[:4]) == talk[:4]
    said = json.loads(fact.messages[4])
    assert said["role"] == "user"
    assert said["content"].startswith(summary.LABEL)
    assert NOTES in said["content"]
    assert "make tea" in said["content"]
    assert list(fact.messages[-4:]) == talk[-4:]
    assert [SYSTEM, *apply_compression(numbered(talk), fact.compression)] == list(fact.messages)
    (request,) = model.requests
    assert "q2 " in json.loads(request.messages[1])["content"]


async def test_the_next_summary_takes_the_last_one_over() -> None:
    talk = [SYSTEM, *(user(f"q{n} " + "y" * 500) for n in range(60))]
    first, _ = await compressed(compressing(Answers("first notes")), a_turn(talk))
    longer = [*first.messages, *(user(f"r{n} " + "y" * 500) for n in range(60))]
    model = Answers("second notes")
    second, _ = await compressed(compressing(model), a_turn(longer, compression=first.compression))
    assert "first notes" in json.loads(model.requests[0].messages[1])["content"]
    assert sum(summary.LABEL.encode() in m for m in second.messages) == 1
    assert second.compression.head == first.compression.head
    assert second.compression.through > first.compression.through
    stored = [*talk, *longer[len(first.messages) :]]
    assert [SYSTEM, *apply_compression(numbered(stored), second.compression)] == list(
        second.messages
    )


def _talk(count: int) -> list[bytes]:
    return [user(f"q{n} " + "y" * 500) for n in range(count)]


async def test_the_model_of_the_conversation_makes_notes_where_theirs_fails() -> None:
    class Fails(Answers):
        async def _events(self) -> AsyncIterator[ModelEvent]:
            if self.requests[-1].model == "small":
                raise ModelError(ModelErrorKind.BILLING, "no")
            async for event in super()._events():
                yield event

    model = Fails()
    by = compressing(model, route=Route("auxiliary.compression", "small"))
    turn = a_turn([SYSTEM, *_talk(60)])
    turn.request = replace(turn.request, switched=Switched("spare", "m"))
    fact, _ = await compressed(by, turn)
    asked = [(request.route, request.model) for request in model.requests]
    assert asked == [("auxiliary.compression", "small"), ("spare", "m")]
    assert {request.temperature for request in model.requests} == {0.3}
    assert NOTES in json.loads(fact.messages[4])["content"]
    assert fact.model == "m"


async def test_notes_are_asked_for_as_the_window_of_who_makes_them_allows() -> None:
    windows = {"m": 9000, "small": 2000}

    async def plan_of(_session_id: str) -> str:
        return ""

    model = Answers()
    made = Compressor(
        windows.__getitem__, plan_of, CompressionConfig(), Route("", "small"), ManualClock()
    )
    await compressed(Compressing(made, model), a_turn([SYSTEM, *_talk(100)]))
    (request,) = model.requests
    assert request.model == "small"
    assert sum(map(len, request.messages)) < 2000 * 4


async def test_a_model_that_fails_is_not_needed_and_not_asked_again_soon() -> None:
    model = Answers(error=ModelError(ModelErrorKind.TIMEOUT, "no"))
    talk = [SYSTEM, *(user(f"q{n} " + "y" * 500) for n in range(60))]
    clock = ManualClock()
    by = compressing(model, clock=clock)
    fact, _ = await compressed(by, a_turn(talk))
    assert fact.helped
    assert "- q40 yyy" in json.loads(fact.messages[4])["content"]
    await compressed(by, a_turn(talk))
    assert len(model.requests) == 1
    await clock.advance(compressor.COOL_DOWN_S)
    await compressed(by, a_turn(talk))
    assert len(model.requests) == 2


V4A = """*** Begin Patch
*** Update File: src/one.py
@@
-a
+b
*** Add File: two.py
+c
*** End Patch"""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mode": "replace", "path": "three.py", "old_string": "a"}, "three.py"),
        ({"mode": "patch", "patch": V4A}, "src/one.py, two.py"),
        ({"mode": "patch", "patch": "no patch"}, ""),
    ],
)
def test_the_files_that_patches_have_changed_are_named(
    arguments: dict[str, str], named: str
) -> None:
    function = {"name": "patch", "arguments": json.dumps(arguments)}
    call = {"id": "1", "type": "function", "function": function}
    asked = encoded({"role": "assistant", "content": None, "tool_calls": [call]})
    said = json.loads(summary.message("notes", [asked, result("1", "done")], ""))["content"]
    assert said.partition(summary.FILES)[2] == named


async def test_what_does_not_help_is_not_tried_for_ever() -> None:
    huge = a_turn([SYSTEM, user("a"), user("b" * 100_000)])
    by = compressing(Answers())
    fact, _ = await compressed(by, huge)
    assert not fact.helped
    assert list(fact.messages) == huge.messages
    huge.compressed_in_vain = compressor.IN_VAIN_LIMIT
    assert not by.is_due(huge, b"")


@pytest.mark.parametrize(
    ("more", "policy", "is_due"),
    [
        ({}, {}, False),
        ({"tokens_per_byte": 0.7}, {}, True),
        ({"tokens_per_byte": 0.7}, {"enabled": False}, False),
        ({}, {"threshold": 0.1}, True),
    ],
)
def test_when_it_is_due(more: dict[str, Any], policy: dict[str, Any], is_due: bool) -> None:
    turn = a_turn([SYSTEM, user("a" * 7000), user("b" * 8000)], **more)
    assert compressing(Answers(), **policy).is_due(turn, b"") is is_due


def test_what_is_too_long_for_notes_is_cut_in_the_middle() -> None:
    middle = [user(f"part {n} " + "y" * 900) for n in range(100)]
    asked = json.loads(summary.request(middle, 20_000)[1])["content"]
    assert len(asked) < 21_000
    assert "part 0 " in asked
    assert "part 99 " in asked
