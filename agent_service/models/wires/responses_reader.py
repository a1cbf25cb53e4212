"""Assembles one answer from the events of OpenAI's Responses API."""

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
from services.validation import object_of

REASONING = "reasoning"
_INCOMPLETE: Mapping[str, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}

_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ENDS = frozenset({"response.completed", "response.incomplete"})
_FAILED = frozenset({"response.failed", "response.cancelled"})
_KEPT = frozenset({"message", "function_call", REASONING})
_NOT_SENT = frozenset({"status"})
"""Item fields that are not sent back."""


class ResponsesReading:
    """Assembles one answer item by item."""

    def __init__(self) -> None:
        self.finish_reason = ""
        self._model = ""
        self._usage: Usage | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._text: dict[int, list[str]] = {}
        self._thoughts: dict[tuple[int, object], list[str]] = {}
        self._arguments: dict[int, list[str]] = {}

    @property
    def ended(self) -> bool:
        return bool(self.finish_reason)

    def failure(self, chunk: Json) -> object:
        kind = chunk.get("type")
        told = object_of(chunk.get("response")) if kind in _FAILED else chunk
        if kind in _FAILED or told.get("status") in {"failed", "cancelled"}:
            return told.get("error") or {"message": "the response has failed"}
        return reported_error(chunk)

    def add(self, chunk: Json) -> tuple[str, str]:
        kind, index = chunk.get("type"), _index(chunk)
        if kind in _TEXT:
            return self._grow(self._text.setdefault(index, []), chunk), ""
        if kind in _THOUGHT:
            return "", self._think(index, chunk)
        if kind == "response.function_call_arguments.delta":
            self._grow(self._arguments.setdefault(index, []), chunk)
        elif kind == "response.output_item.added":
            self._items[index] = dict(object_of(chunk.get("item")))
        elif kind == "response.output_item.done":
            return self._done(index, object_of(chunk.get("item")))
        elif kind in _ENDS:
            return self._end(object_of(chunk.get("response")))
        elif chunk.get("object") == "response":
            return self._end(chunk)  # not streamed
        return "", ""

    def message(self, model: str, provider: str) -> ModelMessage:
        order = [index for index in sorted(self._items) if self._kind(index) in _KEPT]
        calls = tuple(self._call(index) for index in order if self._kind(index) == "function_call")
        thoughts = ["".join(self._thoughts[place]) for place in sorted(self._thoughts, key=str)]
        finish = self.finish_reason
        return ModelMessage(
            text=well_formed("".join(piece for i in order for piece in self._text.get(i, ()))),
            reasoning=well_formed("\n\n".join(thought for thought in thoughts if thought)),
            tool_calls=calls,
            usage=self._usage,
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            model=self._model or model,
            provider=provider,
            reasoning_details=self._details(order),
        )

    def _grow(self, pieces: list[str], chunk: Json) -> str:
        if _index(chunk) not in self._items:
            raise MalformedChunk("a piece of an item that has not begun")
        piece = text_of(chunk.get("delta"))
        pieces.append(piece)
        return piece

    def _think(self, index: int, chunk: Json) -> str:
        part = chunk.get("summary_index", chunk.get("content_index", 0))
        is_next = bool(self._thoughts) and (index, part) not in self._thoughts
        piece = self._grow(self._thoughts.setdefault((index, part), []), chunk)
        return f"\n\n{piece}" if is_next else piece

    def _done(self, index: int, item: Json) -> tuple[str, str]:
        """Store a whole item; return the part that was not streamed."""
        self._items[index] = dict(item)
        text = reasoning = ""
        if item.get("type") == "message" and index not in self._text:
            text = _join(item.get("content"), "")
            self._text[index] = [text]
        if item.get("type") == REASONING and not any(at == index for at, _ in self._thoughts):
            reasoning = _join(item.get("summary"), "\n\n")
            if reasoning:
                separate = "\n\n" if self._thoughts else ""
                self._thoughts[index, 0] = [reasoning]
                reasoning = separate + reasoning
        return text, reasoning

    def _end(self, response: Json) -> tuple[str, str]:
        self._model = text_of(response.get("model"))
        usage = response.get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(cast("Json", usage))
        added: list[tuple[str, str]] = []
        output = response.get("output")
        if isinstance(output, list) and not self._items:
            items = enumerate(cast("list[object]", output))
            added = [self._done(index, object_of(item)) for index, item in items]
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if response.get("status") == "incomplete":
            self.finish_reason = _INCOMPLETE.get(reason, reason or "length")
        else:
            self.finish_reason = "stop"
        return "".join(text for text, _ in added), "".join(thought for _, thought in added)

    def _kind(self, index: int) -> str:
        return text_of(self._items[index].get("type"))

    def _call(self, index: int) -> ToolCall:
        item = self._items[index]
        call_id, name = text_of(item.get("call_id")), text_of(item.get("name"))
        if not (call_id and name):
            raise MalformedChunk("a tool call without a name")
        written = "".join(self._arguments.get(index, ())) or text_of(item.get("arguments"))
        # Unchanged, since the tool's caller judges malformed arguments.
        return ToolCall(call_id, well_formed(name), well_formed(written) or "{}")

    def _details(self, order: list[int]) -> tuple[Mapping[str, Any], ...]:
        """The reasoning; or all items if it stands between others, to keep the order."""
        thoughts = [number for number, i in enumerate(order) if self._kind(i) == REASONING]
        between = bool(thoughts) and thoughts[-1] >= len(thoughts)
        return tuple(
            {name: value for name, value in self._items[i].items() if name not in _NOT_SENT}
            for number, i in enumerate(order)
            if between or number in thoughts
        )


def _usage(counts: Json) -> Usage:
    sent = object_of(counts.get("input_tokens_details"))
    said = object_of(counts.get("output_tokens_details"))
    return Usage(
        prompt_tokens=tokens(counts.get("input_tokens")),
        completion_tokens=tokens(counts.get("output_tokens")),
        cached_tokens=tokens(sent.get("cached_tokens")),
        reasoning_tokens=tokens(said.get("reasoning_tokens")),
    )


def _join(parts: object, between: str) -> str:
    found = cast("list[object]", parts) if isinstance(parts, list) else []
    objects = map(object_of, found)
    texts = [text_of(part.get("text")) or text_of(part.get("refusal")) for part in objects]
    return between.join(texts)


def _index(chunk: Json) -> int:
    index = chunk.get("output_index")
    return index if isinstance(index, int) else 0
