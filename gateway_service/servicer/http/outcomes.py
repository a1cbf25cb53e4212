"""How turns end, as HTTP clients are told."""

from typing import Any

from hermes.agent.v1.turn_event_pb2 import TurnFinished
from hermes.common.v1.error_pb2 import ErrorReason
from services.errors import HermesError, Reason


def failure_of(finished: TurnFinished) -> HermesError | None:
    """Return why a turn failed; None if it did not."""
    if not finished.HasField("failed"):
        return None
    failure = finished.failed.failure
    name = ErrorReason.Name(failure.reason).removeprefix("ERROR_REASON_")
    reason = Reason.__members__.get(name, Reason.INTERNAL)
    return HermesError(failure.message or "the turn failed", reason=reason)


def finish_reason(finished: TurnFinished) -> str:
    """Return why a chat completion ended."""
    return "length" if finished.HasField("limit_reached") else "stop"


def chat_usage(finished: TurnFinished) -> dict[str, Any]:
    """Return what a turn used, as chat completions tell it."""
    used = finished.usage
    return {
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "total_tokens": used.prompt_tokens + used.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def response_usage(finished: TurnFinished) -> dict[str, Any]:
    """Return what a turn used, as responses tell it."""
    used = finished.usage
    return {
        "input_tokens": used.prompt_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens},
        "output_tokens": used.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.prompt_tokens + used.completion_tokens,
    }
