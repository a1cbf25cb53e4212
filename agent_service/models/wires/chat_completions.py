"""The wire format of OpenAI's chat completions API, which most endpoints speak."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from agent_service.models.wires.streamed_calls import StreamedCalls
from agent_service.models.wires.wire import (
    Corrections,
    Dialect,
    Json,
    micro_usd,
    objects_of,
    reported_error,
    text_of,
    tokens,
    well_formed,
)
from agent_service.records.model import ModelMessage, ModelRequest, encoded
from agent_service.records.usage import Usage
from services.validation import object_of

_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
_EXTRA = "extra_content"
"""Where Gemini signs answers and calls."""
_MERGED_DETAILS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class Assembly:
    """Assembles one answer from chunks of any server that claims compatibility.

    Missing and null fields count as empty; only lost content is an error.
    """

    def __init__(self) -> None:
        self.finish_reason = ""
        self._model = ""
        self._provider = ""
        self._text: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._details: list[dict[str, Any]] = []
        self._calls = StreamedCalls()
        self._extra: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._logprobs: list[Json] = []
        self._token_ids: list[object] = []

    def add(self, chunk: Json) -> tuple[str, str]:
        self._model = self._model or text_of(chunk.get("model"))
        self._provider = self._provider or text_of(chunk.get("provider"))
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = read_usage(cast("Json", usage))
        text = reasoning = ""
        for choice in objects_of(chunk.get("choices")):
            if choice.get("index"):
                continue  # only one answer was requested
            self.finish_reason = text_of(choice.get("finish_reason")) or self.finish_reason
            self._add_logprobs(choice)
            # Some servers end a stream with the whole message.
            delta = choice.get("delta") or (None if self._text else choice.get("message"))
            if isinstance(delta, dict):
                found = cast("Json", delta)
                text += self._add_text(found)
                reasoning += self._add_reasoning(found)
                if extra := found.get(_EXTRA):
                    self._extra[_EXTRA] = extra
                for call in objects_of(found.get("tool_calls") or found.get("function_call")):
                    self._calls.add(call)
        return text, reasoning

    def failure(self, chunk: Json) -> object:
        return reported_error(chunk)

    @property
    def ended(self) -> bool:
        """Always false: `[DONE]` or the end of the stream follows the last chunk."""
        return False

    def message(self, model: str, provider: str) -> ModelMessage:
        text = well_formed("".join(self._text))
        return ModelMessage(
            text=text,
            reasoning=_join(well_formed("".join(parts)) for parts in self._reasoning.values()),
            tool_calls=self._calls.finish(bool(text)),
            usage=self._usage,
            finish_reason=self.finish_reason or "stop",
            model=self._model or model,
            provider=self._provider or provider,
            reasoning_details=tuple(self._details),
            extra=self._attached(),
            logprobs=self._encoded_logprobs(),
        )

    def _attached(self) -> dict[str, Any]:
        """The other fields that go back; blocks of reasoning say all of it."""
        forms = {} if self._details else self._reasoning
        texts = {form: well_formed("".join(parts)) for form, parts in forms.items()}
        return texts | self._extra

    def _add_logprobs(self, choice: Json) -> None:
        self._logprobs += objects_of(object_of(choice.get("logprobs")).get("content"))
        if isinstance(ids := choice.get("token_ids"), list):
            self._token_ids += cast("list[object]", ids)

    def _encoded_logprobs(self) -> str:
        """Return the tokens with their ids, which vLLM tells apart from them."""
        ids = self._token_ids if len(self._token_ids) == len(self._logprobs) else []
        kept = [
            {
                "token": well_formed(text_of(each.get("token"))),
                "logprob": each.get("logprob"),
                "id": ids[at] if ids else each.get("id"),
            }
            for at, each in enumerate(self._logprobs)
        ]
        return msgspec.json.encode(kept).decode() if kept else ""

    def _add_text(self, delta: Json) -> str:
        content = delta.get("content") or delta.get("refusal")
        if isinstance(content, list):
            parts = objects_of(cast("object", content))
            content = "".join(text_of(part.get("text")) for part in parts)
        text = text_of(content)
        if text:
            self._text.append(text)
        return text

    def _add_reasoning(self, delta: Json) -> str:
        """Collect every form of reasoning in the delta; return one, since they say the same."""
        if delta.keys().isdisjoint(_REASONING_FIELDS):
            return ""
        details = list(objects_of(delta.get("reasoning_details")))
        forms = {
            "reasoning": text_of(delta.get("reasoning")),
            "reasoning_content": text_of(delta.get("reasoning_content")),
            "reasoning_details": "".join(
                text_of(detail.get("text")) or text_of(detail.get("summary")) for detail in details
            ),
        }
        for form, text in forms.items():
            if text:
                self._reasoning.setdefault(form, []).append(text)
        for detail in details:
            self._add_detail(detail)
        return next((text for text in forms.values() if text), "")

    def _add_detail(self, detail: Json) -> None:
        """Append a reasoning block, or continue the last one, as it will be sent back."""
        key = _MERGED_DETAILS.get(text_of(detail.get("type")), "")
        last = self._details[-1] if self._details else {}
        if key and all(last.get(name) == detail.get(name) for name in ("type", "index")):
            joined = text_of(last.get(key)) + text_of(detail.get(key))
            last.update({name: value for name, value in detail.items() if value is not None})
            last[key] = joined
        else:
            self._details.append(dict(detail))


def read_usage(usage: Json) -> Usage:
    """Read a usage object; missing counts are zero."""
    sent = object_of(usage.get("prompt_tokens_details"))
    said = object_of(usage.get("completion_tokens_details"))
    return Usage(
        prompt_tokens=tokens(usage.get("prompt_tokens")),
        completion_tokens=tokens(usage.get("completion_tokens")),
        cached_tokens=tokens(sent.get("cached_tokens")),
        cache_write_tokens=tokens(sent.get("cache_write_tokens")),
        reasoning_tokens=tokens(said.get("reasoning_tokens")),
        cost_micro_usd=micro_usd(usage.get("cost")),
    )


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(dict.fromkeys(text for text in texts if text))


_RESULT = b'{"role":"tool"'
_MAX_HEAD_BYTES = 1000
_PICTURES_FOLLOW = encoded({"role": "assistant", "content": "[Pictures of these results follow.]"})
"""Strict endpoints take no user's message after results."""

_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Gemini accepts in place of its signature."""


class ChatCompletions:
    """The wire format of chat completions."""

    key_header = "Authorization"
    path = "/chat/completions"
    corrections: Corrections = (
        ("max_tokens", "max_completion_tokens"),
        ("stream_options", "stream_options"),
        ("streams", "logprobs tools stream"),
        ("logprobs", "logprobs"),
        ("token_ids", "return_token_ids"),
        ("progress", "return_progress"),
        ("bare_answers", "reasoning_content missing"),
        ("bare_answers", "reasoning_content passed back"),
        ("unsigned_calls", "thought_signature"),
        ("attached", "reasoning_content"),
        ("attached", "extra_content"),
        ("attached", "property 'reasoning'"),
        ("effort", "reasoning"),
        ("attached", "reasoning"),
        ("temperature", "temperature"),
    )

    def __init__(self, effort: str = "", *, logprobs: bool = False) -> None:
        """`effort` is low, medium or high; empty is the model's default."""
        self._effort = effort
        self._logprobs = logprobs

    def headers(self) -> Mapping[str, str]:
        return {}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        streams = b"true" if dialect.streams else b"false"
        fields = [b'{"model":', encoded(request.model), b',"stream":', streams, b',"messages":[']
        fields += [b",".join(self._messages(request, dialect)), b"]"]
        if request.tools:
            fields += [b',"tools":', request.tools, b',"tool_choice":"auto"']
        cap = b"max_tokens" if dialect.max_tokens else b"max_completion_tokens"
        fields += [b',"%b":%d' % (cap, request.max_tokens)]
        if dialect.stream_options and dialect.streams:
            fields.append(b',"stream_options":{"include_usage":true}')
        if dialect.progress:
            fields.append(b',"return_progress":true')
        return b"".join([*fields, dialect.temperature_of(request), self._extras(dialect), b"}"])

    def reading(self) -> Assembly:
        return Assembly()

    def _messages(self, request: ModelRequest, dialect: Dialect) -> Sequence[bytes]:
        messages = _with_pictures(request.messages)
        if dialect.bare_answers and dialect.unsigned_calls:
            return messages
        return [_filled(message, dialect) for message in messages]

    def _extras(self, dialect: Dialect) -> bytes:
        extras = b""
        if self._effort and dialect.effort:
            extras += b',"reasoning_effort":"%b"' % self._effort.encode()
        if self._logprobs and dialect.logprobs:
            # Some take no alternatives to mean no probabilities, or twenty.
            extras += b',"logprobs":true,"top_logprobs":1'
            extras += b',"return_token_ids":true' if dialect.token_ids else b""
        return extras


def _with_pictures(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Move pictures of tool results, which this API takes only from users, behind the results."""
    if not any(_has_parts(message) for message in messages):
        return messages
    sent: list[bytes] = []
    moved: list[Json] = []
    for message in messages:
        if moved and not message.startswith(_RESULT):
            sent += [_PICTURES_FOLLOW, encoded({"role": "user", "content": moved})]
            moved = []
        if not _has_parts(message):
            sent.append(message)
            continue
        result: dict[str, Any] = json.loads(message)
        first, *others = result["content"]
        is_text = all(part.get("type") == "text" for part in others)
        told = "\n\n".join(part["text"] for part in (first, *(others if is_text else ())))
        moved += () if is_text else others
        sent.append(encoded({**result, "content": told}))
    return [*sent, _PICTURES_FOLLOW, encoded({"role": "user", "content": moved})] if moved else sent


def _has_parts(message: bytes) -> bool:
    # The id of the call is all that stands between.
    return message.startswith(_RESULT) and b',"content":[{' in message[:_MAX_HEAD_BYTES]


def _filled(message: bytes, dialect: Dialect) -> bytes:
    """An answer of another model with what this one's provider wants of its own."""
    if not message.startswith(b'{"role":"assistant"'):
        return message
    if not dialect.bare_answers and b',"reasoning_content":' not in message:
        # Some count an empty one as missing.
        message = message[:-1] + b',"reasoning_content":" "}'
    if dialect.unsigned_calls or b',"tool_calls":' not in message:
        return message
    entry: dict[str, Any] = json.loads(message)
    for call in entry["tool_calls"]:
        call.setdefault("extra_content", _UNSIGNED)
    return encoded(entry)
