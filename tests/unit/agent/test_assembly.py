"""Putting answers together from what all kinds of servers send."""

import json
from typing import Any

import pytest

from agent_service.models.wires.chat_completions import Assembly, read_usage
from agent_service.models.wires.wire import MalformedChunk, well_formed
from agent_service.records.model import ModelMessage, ToolCall
from agent_service.records.usage import Usage


def assembled(*deltas: dict[str, Any]) -> ModelMessage:
    assembly = Assembly()
    for delta in deltas:
        assembly.add({"choices": [{"index": 0, "delta": delta}]})
    return assembly.message("asked", "endpoint")


def calls(*entries: dict[str, Any]) -> tuple[ToolCall, ...]:
    return assembled(*({"tool_calls": [entry]} for entry in entries)).tool_calls


def call(name: str | None = None, arguments: object = None, **fields: object) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


def test_what_is_missing_or_null_is_nothing() -> None:
    assembly = Assembly()
    for chunk in (
        {},
        {"choices": None, "usage": None},
        {"choices": [None, {}, {"delta": None}]},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "reasoning": None}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [{"index": 0, "finish_reason": None, "delta": {"content": "Hi"}}]},
        {"choices": [{"finish_reason": "stop"}], "model": "served", "provider": "upstream"},
    ):
        assembly.add(chunk)
    message = assembly.message("asked", "endpoint")
    assert message == ModelMessage("Hi", "", (), None, "stop", "served", "upstream")


def test_text_may_come_in_parts_or_as_a_refusal() -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "other"}, {"type": "text", "text": "two"}]
    assert assembled({"content": parts}).text == "one two"
    assert assembled({"refusal": "I won't."}).text == "I won't."


def test_a_message_behind_its_pieces_is_not_added() -> None:
    assembly = Assembly()
    for piece in ("Hi ", "you"):
        assembly.add({"choices": [{"delta": {"content": piece}}]})
    assembly.add({"choices": [{"delta": {}, "message": {"content": "Hi you"}}]})
    assert assembly.message("m", "p").text == "Hi you"


def test_calls_are_told_apart_by_index() -> None:
    assert calls(
        call("a", '{"x":', index=0, id="1"),
        call("b", '{"y":', index=1, id="2"),
        call(None, "1}", index=0),
        call(None, "2}", index=1),
    ) == (ToolCall("1", "a", '{"x":1}'), ToolCall("2", "b", '{"y":2}'))


def test_calls_with_one_index_are_told_apart_by_id() -> None:
    assert calls(call("a", "{}", index=0, id="1"), call("b", "{}", index=0, id="2")) == (
        ToolCall("1", "a", "{}"),
        ToolCall("2", "b", "{}"),
    )


def test_calls_without_an_index_are_told_apart_by_id() -> None:
    assert calls(call("a", '{"x":', id="1"), call(None, "1}"), call("b", "{}", id="2")) == (
        ToolCall("1", "a", '{"x":1}'),
        ToolCall("2", "b", "{}"),
    )


def test_calls_with_neither_are_told_apart_by_name_and_get_ids() -> None:
    first, second = calls(call("a", "{}"), call("b", "{}"))
    assert (first.name, second.name) == ("a", "b")
    assert first.id
    assert second.id
    assert first.id != second.id


A1, B2 = '{"command": "echo A1"}', '{"command": "echo B2"}'
HALF, REST = '{"command": ', '"echo A1"}'


@pytest.mark.parametrize("index", [None, 0])
@pytest.mark.parametrize("call_id", [None, "", "same"])
def test_whole_calls_in_one_place_are_several(index: object, call_id: object) -> None:
    first, second = calls(
        call("terminal", A1, index=index, id=call_id), call("terminal", B2, index=index, id=call_id)
    )
    assert (first.arguments_json, second.arguments_json) == (A1, B2)
    assert len({first.id, second.id, ""}) == 3


@pytest.mark.parametrize(
    "pieces",
    {
        "a new id each": [
            call("terminal", HALF, index=0, id="1"),
            call(None, REST, index=0, id="2"),
        ],
        "and the name": [
            call("terminal", HALF, index=0, id="1"),
            call("terminal", REST, index=0, id="2"),
        ],
        "the name each": [call("terminal", HALF), call("terminal", REST)],
        "the index once": [call("terminal", HALF, index=0, id="1"), call(None, REST)],
        "the id first": [{"index": 0, "id": "1"}, call("terminal", HALF), call(None, REST)],
        "the name in pieces": [
            call("term", "", index=0, id="1"),
            call("inal", HALF, index=0),
            call(None, REST, index=0),
        ],
        "longer each time": [
            call("terminal", "", index=0, id="1"),
            call(None, HALF, index=0),
            call(None, A1[:-1], index=0),
            call(None, A1, index=0),
        ],
        "without a function": [
            {"index": 0, "id": "1", "name": "terminal", "arguments": HALF},
            {"index": 0, "arguments": REST},
        ],
        "the name last": [call(None, HALF, index=0, id="1"), call("terminal", REST, index=0)],
    }.items(),
    ids=lambda pieces: pieces[0],
)
def test_the_pieces_of_one_call_are_joined(pieces: tuple[str, list[dict[str, Any]]]) -> None:
    (one,) = calls(*pieces[1])
    assert (one.name, one.arguments_json) == ("terminal", A1)


def test_a_call_has_its_old_name() -> None:
    pieces = ({"name": "terminal", "arguments": ""}, {"arguments": HALF}, {"arguments": REST})
    (one,) = assembled(*({"function_call": piece} for piece in pieces)).tool_calls
    assert (one.name, one.arguments_json, one.extra) == ("terminal", A1, {})


def test_calls_whose_pieces_alternate_are_told_apart_by_id() -> None:
    names = (call("terminal", "", id="1"), call("terminal", "", id="2"))
    pieces = (call(None, HALF, id="1"), call(None, B2, id="2"), call(None, REST, id="1"))
    first, second = calls(*names, *pieces)
    assert (first.arguments_json, second.arguments_json) == (A1, B2)


@pytest.mark.parametrize("pieces", [("{}", A1), ("null", HALF, REST), (A1, "{}"), (HALF, REST, A1)])
def test_placeholders_and_repetitions_are_no_arguments(pieces: tuple[str, ...]) -> None:
    name = call("terminal", None, index=0, id="1")
    (one,) = calls(name, *(call(None, piece, index=0) for piece in pieces))
    assert one.arguments_json == A1


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
def test_an_empty_call_without_a_name_beside_an_answer_is_none(arguments: object) -> None:
    empty = {"tool_calls": [call("", arguments, index=1, id="")]}
    assert assembled({"content": "Fine."}, empty).tool_calls == ()
    named = {"tool_calls": [call("terminal", A1, index=0, id="1")]}
    assert [one.name for one in assembled(named, empty).tool_calls] == ["terminal"]


def test_ids_are_unique_in_a_message() -> None:
    first, second = calls(call("a", "{}", index=0, id="1"), call("b", "{}", index=1, id="1"))
    assert first.id == "1"
    assert second.id not in {"", "1"}


def test_a_name_that_is_repeated_counts_once() -> None:
    assert calls(
        call("terminal", '{"a"', index=0, id="1"), call("terminal", ":1}", index=0, id="1")
    ) == (ToolCall("1", "terminal", '{"a":1}'),)


@pytest.mark.parametrize(("sent", "kept"), [(None, "{}"), ("", "{}"), ({"a": "ä"}, '{"a": "ä"}')])
def test_arguments_may_be_absent_or_an_object(sent: object, kept: str) -> None:
    assert calls(call("a", sent, index=0, id="1")) == (ToolCall("1", "a", kept),)


def test_a_call_without_a_name_is_an_error() -> None:
    with pytest.raises(MalformedChunk):
        calls(call(None, "{}", index=0, id="1"))


def test_reasoning_that_is_sent_twice_is_kept_and_shown_once() -> None:
    assembly = Assembly()
    shown = ""
    for piece in ("Six ", "by seven."):
        details = [{"type": "reasoning.text", "text": piece, "index": 0}]
        delta = {"reasoning": piece, "reasoning_details": details}
        shown += assembly.add({"choices": [{"delta": delta}]})[1]
    assert shown == assembly.message("m", "p").reasoning == "Six by seven."


def test_different_reasonings_are_joined_by_a_blank_line() -> None:
    message = assembled({"reasoning": "One."}, {"reasoning_content": "Two."})
    assert message.reasoning == "One.\n\nTwo."


def test_reasoning_details_are_merged_into_the_blocks_that_go_back() -> None:
    def details(**fields: object) -> dict[str, Any]:
        return {"reasoning_details": [fields]}

    message = assembled(
        details(type="reasoning.text", index=0, text="Six ", signature=None),
        details(type="reasoning.text", index=0, text="by seven."),
        details(type="reasoning.text", index=0, signature="sig"),
        details(type="reasoning.encrypted", index=1, data="abc"),
        details(type="reasoning.encrypted", index=1, data="def"),
        details(type="reasoning.summary", index=2, summary="Done."),
    )
    assert [dict(detail) for detail in message.reasoning_details] == [
        {"type": "reasoning.text", "index": 0, "text": "Six by seven.", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
        {"type": "reasoning.encrypted", "index": 1, "data": "def"},
        {"type": "reasoning.summary", "index": 2, "summary": "Done."},
    ]
    assert message.reasoning == "Six by seven.Done."


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({}, Usage()),
        ({"prompt_tokens": 5, "completion_tokens": None}, Usage(5)),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": None, "cost": 0},
            Usage(5, cost_micro_usd=0),
        ),
        ({"prompt_tokens_details": {"cached_tokens": 4}}, Usage(cached_tokens=4)),
        ({"cost": 0.0000015}, Usage(cost_micro_usd=2)),
        ({"prompt_tokens": -1, "cost": -1}, Usage()),
        ({"prompt_tokens": "many", "cost": "dear"}, Usage()),
        ({"cost": float("nan")}, Usage()),
        ({"cost": float("inf")}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": 10**30, "cost": True}, Usage()),
        ({"cost": 1e308}, Usage()),
        ({"cost": 10**400}, Usage()),
    ],
)
def test_usage_is_read_leniently(sent: dict[str, Any], read: Usage) -> None:
    assert read_usage(sent) == read


def test_the_last_usage_counts() -> None:
    assembly = Assembly()
    for count in (1, 7):
        assembly.add({"choices": [], "usage": {"completion_tokens": count}})
    assert assembly.message("m", "p").usage == Usage(completion_tokens=7)


def test_halves_of_a_character_become_one() -> None:
    halves = [json.loads('{"content": "\\ud83d"}'), json.loads('{"content": "\\ude00"}')]
    assert assembled(*halves).text == "😀"
    assert well_formed("a\ud83db") == "a\ufffdb"
