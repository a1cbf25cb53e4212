"""Removes secrets from a model's answers before they are stored, shown or sent again."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from agent_service.records.events import ReasoningDelta, TextDelta
from agent_service.records.model import ModelMessage, ToolCall
from services.redaction.redactor import Redactor, changed_texts
from services.redaction.stream import RedactedStream

_OPAQUE = frozenset({"signature", "data", "encrypted_content", "id", "thought_signature"})
_SIGNED = "thinking"
_CALLS = frozenset({"tool_use", "function_call"})


class RedactedAttempt:
    """Redacts a streamed attempt; text held back is dropped if the attempt fails."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = RedactedStream(redactor)
        self._last: TextDelta | ReasoningDelta | None = None

    def feed(self, delta: TextDelta | ReasoningDelta) -> Iterator[TextDelta | ReasoningDelta]:
        if self._last is not None and type(self._last) is not type(delta):
            yield from self.finish()
        self._last = delta
        yield from self._deltas(self._stream.feed(delta.text))

    def finish(self) -> Iterator[TextDelta | ReasoningDelta]:
        """Return what was held back, at the end of the text or the reasoning."""
        yield from self._deltas(self._stream.finish())

    def _deltas(self, text: str) -> Iterator[TextDelta | ReasoningDelta]:
        if text and self._last is not None:
            yield self._last if text == self._last.text else replace(self._last, text=text)


def clean_message(message: ModelMessage, redactor: Redactor) -> ModelMessage:
    """Return the answer without secrets."""
    text, reasoning = redactor.redact(message.text), redactor.redact(message.reasoning)
    calls = tuple(_call(call, redactor) for call in message.tool_calls)
    clean = replace(
        message,
        text=text,
        reasoning=reasoning,
        tool_calls=calls,
        reasoning_details=_details(message.reasoning_details, redactor),
        extra=_extra(message.extra, redactor),
    )
    # A secret would be in the tokens, too.
    return message if clean == message else replace(clean, logprobs="")


def _extra(fields: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", changed_texts(fields, redactor.redact, _OPAQUE))


def _call(call: ToolCall, redactor: Redactor) -> ToolCall:
    redact = redactor.redact_program
    arguments = redact(call.arguments_json)
    if arguments != call.arguments_json and not _is_json(arguments):
        arguments = _by_leaves(call, redact)
    return replace(call, arguments_json=arguments, extra=_extra(call.extra, redactor))


def _by_leaves(call: ToolCall, redact: Callable[[str], str]) -> str:
    """Redact each text of the arguments, since redacting the whole would break the JSON."""
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        return redact(call.arguments_json)  # was not JSON before
    return json.dumps(changed_texts(arguments, redact), ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _details(
    blocks: tuple[Mapping[str, Any], ...], redactor: Redactor
) -> tuple[Mapping[str, Any], ...]:
    """Reasoning to send back; signed reasoning is sent unchanged or not at all."""
    kept: list[Mapping[str, Any]] = []
    for block in blocks:
        is_call = block.get("type") in _CALLS
        redact = redactor.redact_program if is_call else redactor.redact
        clean = changed_texts(block, redact, _OPAQUE)
        if clean == block or block.get("type") != _SIGNED:
            kept.append(cast("Mapping[str, Any]", clean))
    return tuple(kept)
