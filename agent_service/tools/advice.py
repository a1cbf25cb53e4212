"""Advice for the model beside a result: that it repeats itself, or that its calls run out.

It depends only on the conversation and the turn, so a resumed turn gets the same advice.
"""

import json
from collections.abc import Sequence
from typing import Any

from agent_service.records.model import ToolCall, sent_call
from agent_service.records.turn_state import STOP_AT, LiveTurn
from agent_service.tools.guards.taint import without_marks

WARN_AT = 2
WRAP_UP_CALLS = 5
WRAP_UP_SHARE = 10
"""Advice starts at the last tenth of the model calls, at most five."""


def failures_in_row(messages: Sequence[bytes], call: ToolCall, text: str) -> int:
    """In how many messages in a row, up to the last, a call has failed in the same way.

    `messages` end with the call's message. Identical calls of one message count once; a message
    with anything else ends the row.
    """
    count = 1
    text = without_marks(text)
    before = _before_last_answer(messages)
    results: dict[str, str] = {}
    for encoded in reversed(before):
        fields: dict[str, Any] = json.loads(encoded)
        if fields["role"] == "tool":
            results[fields["tool_call_id"]] = str(fields["content"])
        elif fields["role"] == "assistant" and _has_failed(fields, results, call, text):
            results = {}
            count += 1
        else:
            break
        if count >= STOP_AT:
            break
    return count


def of_failures(count: int) -> str:
    """Advice after this many failures in a row; empty for the first."""
    if count < WARN_AT:
        return ""
    return (
        f"[The same call has now failed in the same way {count} times in a row. Do not make it "
        "again unchanged. Find out why it fails, try something else, or say what is missing.]"
    )


def of_calls_left(turn: LiveTurn) -> str:
    """Advice when few model calls of the turn are left; empty before."""
    left, most = turn.calls_left, turn.options.max_model_calls
    if not 0 < left <= max(1, min(WRAP_UP_CALLS, most // WRAP_UP_SHARE)):
        return ""
    if left == 1:
        return (
            "[This turn has one model call left. Answer now: say what you have and what is still "
            "to do. Tools that you still call run, but you will not see their results.]"
        )
    return f"[This turn has {left} model calls left. Finish with something useful.]"


def _before_last_answer(messages: Sequence[bytes]) -> Sequence[bytes]:
    at = len(messages)
    while at and not messages[at - 1].startswith(b'{"role":"assistant"'):
        at -= 1
    return messages[: max(at - 1, 0)]


def _has_failed(answer: dict[str, Any], results: dict[str, str], call: ToolCall, text: str) -> bool:
    calls: list[dict[str, Any]] = answer.get("tool_calls") or []
    same = [each for each in calls if _is_same(each["function"], call)]
    return bool(same) and all(
        without_marks(results.get(each["id"], "")).startswith(text) for each in same
    )


def _is_same(function: dict[str, str], call: ToolCall) -> bool:
    same = sent_call(call)["function"]
    return function["name"] == same["name"] and (
        function["arguments"] == same["arguments"]
        or json.loads(function["arguments"]) == json.loads(same["arguments"])
    )
