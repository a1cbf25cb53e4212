"""Trace spans of turns and tools, with OpenTelemetry's attribute names."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from agent_service.models.spans import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OPERATION,
    OUTPUT_TOKENS,
    REQUEST_MODEL,
)
from agent_service.records.events import Outcome
from agent_service.records.turn_state import LiveTurn
from agent_service.tools.base import ToolArguments, ToolResult
from agent_service.tools.guards.approval import DecisionRequired
from services.telemetry.tracing import CANCELLED, Attributes, span

AGENT = "hermes"

_AGENT_NAME = "gen_ai.agent.name"
_CONVERSATION = "gen_ai.conversation.id"
_TOOL_NAME = "gen_ai.tool.name"
_TOOL_TYPE = "gen_ai.tool.type"
_TOOL_CALL = "gen_ai.tool.call.id"
_TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
_TOOL_RESULT = "gen_ai.tool.call.result"
# OpenTelemetry has no names for these.
_TURN = "hermes.turn.id"
_TURN_KIND = "hermes.turn.kind"
_EPOCH = "hermes.turn.epoch"
_PLATFORM = "hermes.platform"
_OUTCOME = "hermes.turn.outcome"
_COST = "hermes.cost_micro_usd"


@contextmanager
def turn_span(turn: LiveTurn) -> Generator[None]:
    """A span for a turn while it runs here; its parent is the message that started the turn."""
    about: Attributes = {
        OPERATION: "invoke_agent",
        _AGENT_NAME: AGENT,
        _CONVERSATION: turn.session_id,
        REQUEST_MODEL: turn.model,
        _TURN: turn.id,
        _TURN_KIND: turn.kind,
        _EPOCH: turn.epoch,
        _PLATFORM: turn.platform,
    }
    with span(f"invoke_agent {AGENT}", about, parent=turn.request.traceparent) as current:
        yield
        if turn.finished is not None:
            current.set({_OUTCOME: turn.finished.outcome, **_usage_of(turn)})
            if turn.finished.outcome is Outcome.CANCELLED:
                current.set({CANCELLED: True})
            elif turn.finished.reason:
                current.failed(turn.finished.reason)


def _usage_of(turn: LiveTurn) -> Attributes:
    usage = turn.usage
    return {
        INPUT_TOKENS: usage.prompt_tokens,
        OUTPUT_TOKENS: usage.completion_tokens,
        CACHED_TOKENS: usage.cached_tokens,
        _COST: usage.cost_micro_usd or 0,
    }


@contextmanager
def tool_span(
    name: str, key: str, arguments: ToolArguments
) -> Generator[Callable[[ToolResult], None]]:
    """A span for a tool call, which takes the result; DecisionRequired is not an error."""
    about = {OPERATION: "execute_tool", _TOOL_NAME: name, _TOOL_TYPE: "function", _TOOL_CALL: key}
    with span(f"execute_tool {name}", about, expected=(DecisionRequired,)) as current:
        current.set_text(lambda: {_TOOL_ARGUMENTS: arguments.model_dump_json()})

        def note(result: ToolResult) -> None:
            if result.is_error:
                current.failed("tool_error")
            current.set_text(lambda: {_TOOL_RESULT: result.text})

        yield note
