"""Continues answers that were cut off at the model's output limit, and answers for commands."""

import json
from collections.abc import Sequence
from typing import Any

from agent_service.records.model import ModelMessage, ToolCall, encoded
from agent_service.records.turn_state import LiveTurn

MAX_CONTINUATIONS = 3
CUT_OFF = "length"
"""The finish reason of an answer that was cut off."""

GO_ON = (
    "[Your last message was cut off where the longest possible answer ends. Go on exactly where "
    "it stopped, without repeating or announcing anything.]"
)
_GO_ON = encoded({"role": "user", "content": GO_ON})


def cut_pieces(messages: Sequence[bytes]) -> tuple[str, ...]:
    """Return the pieces that the next message continues; none if it is a new answer."""
    pieces: list[str] = []
    at = len(messages)
    while at >= 2 and messages[at - 1] == _GO_ON:
        fields: dict[str, Any] = json.loads(messages[at - 2])
        pieces.insert(0, fields.get("content") or "")
        at -= 2
    return tuple(pieces)


def command_call(turn: LiveTurn) -> ModelMessage:
    """Return the call of a command that a person typed, as if the model had made it."""
    command = turn.request.text.strip().removeprefix("!").strip()
    arguments = json.dumps({"command": command}, ensure_ascii=False)
    call = ToolCall(f"typed_{turn.id}", "terminal", arguments)
    return ModelMessage("", "", (call,), None, "tool_calls", turn.model, "")


def can_continue(turn: LiveTurn, message: ModelMessage) -> bool:
    """Return whether an answer was cut off and another model call is left."""
    return (
        message.finish_reason == CUT_OFF
        and not message.tool_calls
        and turn.calls_left > 1
        and len(cut_pieces(turn.messages)) < MAX_CONTINUATIONS
    )
