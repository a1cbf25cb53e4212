"""What traces say of turns, models and tools, in the names that OpenTelemetry has for them."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from time import monotonic

from opentelemetry.trace import SpanKind

from agent_service.events import Outcome
from agent_service.live_turn import LiveTurn
from agent_service.models.base import (
    Model,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    ModelRetry,
    ReasoningDelta,
    TextDelta,
)
from agent_service.tools.approval import ApprovalRequired
from agent_service.tools.base import ToolArguments, ToolResult
from agent_service.tools.clarify import ClarificationRequired
from services.tracing import CANCELLED, ERROR, Attributes, Span, span

AGENT = "hermes"

_OPERATION = "gen_ai.operation.name"
_AGENT_NAME = "gen_ai.agent.name"
_CONVERSATION = "gen_ai.conversation.id"
_PROVIDER = "gen_ai.provider.name"
_REQUEST_MODEL = "gen_ai.request.model"
_RESPONSE_MODEL = "gen_ai.response.model"
_MAX_TOKENS = "gen_ai.request.max_tokens"
_FINISH_REASONS = "gen_ai.response.finish_reasons"
_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
_INPUT_TOKENS = "gen_ai.usage.input_tokens"
_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_TOOL_NAME = "gen_ai.tool.name"
_TOOL_TYPE = "gen_ai.tool.type"
_TOOL_CALL = "gen_ai.tool.call.id"
_TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
_TOOL_RESULT = "gen_ai.tool.call.result"
# Ours, where there is no common name.
_TURN = "hermes.turn.id"
_TURN_KIND = "hermes.turn.kind"
_EPOCH = "hermes.turn.epoch"
_PLATFORM = "hermes.platform"
_OUTCOME = "hermes.turn.outcome"
_COST = "hermes.cost_micro_usd"


@contextmanager
def turn_span(turn: LiveTurn) -> Generator[None]:
    """A turn while it is driven here; below the message that began it, whoever drove it before."""
    about: Attributes = {
        _OPERATION: "invoke_agent",
        _AGENT_NAME: AGENT,
        _CONVERSATION: turn.session_id,
        _REQUEST_MODEL: turn.model,
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
        _INPUT_TOKENS: usage.prompt_tokens,
        _OUTPUT_TOKENS: usage.completion_tokens,
        _CACHED_TOKENS: usage.cached_tokens,
        _COST: usage.cost_micro_usd,
    }


class Traced:
    """A Model whose calls are spans."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Call the model."""
        about: Attributes = {
            _OPERATION: "chat",
            _REQUEST_MODEL: request.model,
            _MAX_TOKENS: request.max_tokens,
        }
        with span(f"chat {request.model}", about, kind=SpanKind.CLIENT) as current:
            async with (
                self._inner.stream(request) as events,
                aclosing(_noted(current, request, events)) as noted,
            ):
                yield noted


async def _noted(
    current: Span, request: ModelRequest, events: AsyncIterator[ModelEvent]
) -> AsyncGenerator[ModelEvent]:
    began, has_begun = monotonic(), False
    async for event in events:
        match event:
            case TextDelta() | ReasoningDelta() if not has_begun:
                has_begun = True
                current.set({_FIRST_CHUNK: monotonic() - began})
            case ModelRetry():
                current.happened("retry", {ERROR: event.reason})
            case ModelMessage():
                _answered(current, request, event)
            case _:
                pass
        yield event


def _answered(current: Span, request: ModelRequest, message: ModelMessage) -> None:
    current.set(
        {
            _PROVIDER: message.provider,
            _RESPONSE_MODEL: message.model,
            _FINISH_REASONS: [message.finish_reason],
        }
    )
    if (usage := message.usage) is not None:
        current.set(
            {
                _INPUT_TOKENS: usage.prompt_tokens,
                _OUTPUT_TOKENS: usage.completion_tokens,
                _CACHED_TOKENS: usage.cached_tokens,
            }
        )
    current.set_text(
        lambda: {
            _INPUT: [each.decode() for each in request.messages],
            _OUTPUT: [message.text, *(call.arguments_json for call in message.tool_calls)],
        }
    )


@contextmanager
def tool_span(name: str, key: str, arguments: ToolArguments) -> Generator["ToolSpan"]:
    """A call of a tool; that somebody has to decide first is no failure."""
    about = {_OPERATION: "execute_tool", _TOOL_NAME: name, _TOOL_TYPE: "function", _TOOL_CALL: key}
    waits = (ApprovalRequired, ClarificationRequired)
    with span(f"execute_tool {name}", about, expected=waits) as current:
        current.set_text(lambda: {_TOOL_ARGUMENTS: arguments.model_dump_json()})
        yield ToolSpan(current)


class ToolSpan:
    """A call of a tool while it is made."""

    def __init__(self, current: Span) -> None:
        self._current = current

    def returned(self, result: ToolResult) -> ToolResult:
        """Note what has come of it."""
        if result.is_error:
            self._current.failed("tool_error")
        self._current.set_text(lambda: {_TOOL_RESULT: result.text})
        return result
