"""Assembles one answer from the events of Anthropic's Messages API."""

import json
from collections.abc import Mapping
from typing import Any, cast

from agent_service.models.wires.wire import (
    Json,
    MalformedChunk,
    reported_error,
    text_of,
    tokens,
    well_formed,
)
from agent_service.records.model import ModelMessage, ToolCall
from agent_service.records.usage import Usage
from services.validation import json_object, object_of

THINKING = frozenset({"thinking", "redacted_thinking"})
_FINISH: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "thinking_tokens",
)


class MessagesReading:
    """Assembles one answer block by block."""

    def __init__(self) -> None:
        self.finish_reason = ""
        self._ended = False
        self._model = ""
        self._usage: dict[str, int] | None = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    @property
    def ended(self) -> bool:
        return self._ended

    def failure(self, chunk: Json) -> object:
        return reported_error(chunk)

    def add(self, chunk: Json) -> tuple[str, str]:
        match chunk.get("type"):
            case "message_start":
                self._begin(object_of(chunk.get("message")))
            case "content_block_start":
                return self._begin_block(_index(chunk), dict(object_of(chunk.get("content_block"))))
            case "content_block_delta":
                return self._grow(_index(chunk), object_of(chunk.get("delta")))
            case "message_delta":
                self._stop(object_of(chunk.get("delta")).get("stop_reason"))
                self._count(object_of(chunk.get("usage")))
            case "message_stop":
                self._ended = True
            case "message":
                return self._whole(chunk)  # not streamed
            case _:
                pass  # pings and unknown events
        return "", ""

    def message(self, model: str, provider: str) -> ModelMessage:
        blocks = [self._finished(index) for index in sorted(self._blocks)]
        texts = [str(block.get("text", "")) for block in blocks if block["type"] == "text"]
        thoughts = [str(block.get("thinking", "")) for block in blocks]
        return ModelMessage(
            text=well_formed("".join(texts)),
            reasoning=well_formed("\n\n".join(thought for thought in thoughts if thought)),
            tool_calls=tuple(
                self._call(index) for index in sorted(self._blocks) if self._is_call(index)
            ),
            usage=None if self._usage is None else _usage(self._usage),
            finish_reason=self.finish_reason or "stop",
            model=self._model or model,
            provider=provider,
            reasoning_details=_details(blocks),
        )

    def _begin(self, message: Json) -> None:
        model = message.get("model")
        self._model = model if isinstance(model, str) else ""
        self._count(object_of(message.get("usage")))

    def _begin_block(self, index: int, block: dict[str, Any]) -> tuple[str, str]:
        block.setdefault("type", "")
        self._blocks[index] = block
        if block.get("type") == "tool_use" and not (block.get("id") and block.get("name")):
            raise MalformedChunk("a tool call without a name")
        return text_of(block.get("text")), text_of(block.get("thinking"))

    def _grow(self, index: int, delta: Json) -> tuple[str, str]:
        if index not in self._blocks:
            raise MalformedChunk("a piece of a block that has not begun")
        field = _GROWS.get(text_of(delta.get("type")), "")
        piece = text_of(delta.get(field))
        if piece:
            self._pieces.setdefault((index, field), []).append(piece)
        return piece if field == "text" else "", piece if field == "thinking" else ""

    def _whole(self, message: Json) -> tuple[str, str]:
        self._begin(message)
        content = message.get("content")
        added = [
            self._begin_block(index, dict(object_of(block)))
            for index, block in enumerate(cast("list[object]", content or []))
        ]
        self._stop(message.get("stop_reason"))
        return "".join(text for text, _ in added), "".join(thought for _, thought in added)

    def _stop(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self.finish_reason = _FINISH.get(reason, reason)

    def _count(self, usage: Json) -> None:
        """Update the usage; each event repeats the counts that it knows."""
        told = {**usage, **object_of(usage.get("output_tokens_details"))}
        counts = {name: tokens(told[name]) for name in _COUNTS if isinstance(told.get(name), int)}
        if counts:
            self._usage = {**(self._usage or {}), **counts}

    def _join(self, index: int, field: str) -> str:
        return "".join(self._pieces.get((index, field), ()))

    def _finished(self, index: int) -> dict[str, Any]:
        block = dict(self._blocks[index])
        for field in ("text", "thinking", "signature"):
            grown = self._join(index, field)
            if grown:
                block[field] = well_formed(text_of(block.get(field)) + grown)
        if block.get("type") == "tool_use" and (index, "partial_json") in self._pieces:
            block["input"] = _arguments(self._join(index, "partial_json"))
        return block

    def _is_call(self, index: int) -> bool:
        return self._blocks[index].get("type") == "tool_use"

    def _call(self, index: int) -> ToolCall:
        block = self._blocks[index]
        # Unchanged, since the tool's caller judges malformed arguments.
        written = well_formed(self._join(index, "partial_json"))
        whole = json.dumps(block.get("input") or {}, ensure_ascii=False)
        return ToolCall(str(block["id"]), well_formed(str(block["name"])), written or whole)


def _details(blocks: list[dict[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The thinking; or all blocks if thinking stands between others, since the order is signed."""
    thinking = [number for number, one in enumerate(blocks) if one["type"] in THINKING]
    if thinking and thinking[-1] >= len(thinking):
        return tuple(one for one in blocks if one["type"] != "text" or one.get("text", "").strip())
    return tuple(blocks[number] for number in thinking)


def _usage(counts: Mapping[str, int]) -> Usage:
    sent, read, written, said, thought = (counts.get(name, 0) for name in _COUNTS)
    return Usage(
        prompt_tokens=sent + read + written,
        completion_tokens=said,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=thought,
    )


def _arguments(text: str) -> dict[str, Any]:
    found = json_object(text)
    return {"malformed": text} if found is None else found


def _index(chunk: Json) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0
