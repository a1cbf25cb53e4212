"""Anthropic's Messages API as a scripted model speaks it: its events, named and in its order."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tests.fakes.model_chunks import filled, framed, in_pieces
from tests.fakes.model_script import Conversation, Json, Reply
from tests.fakes.model_server import Speech

_STOPS = {"length": "max_tokens", "content_filter": "refusal"}
SIGNATURE = "EqQBCkYIARgCKkA="


def conversation(body: Json) -> Conversation:
    """Read the last turn of a request, and hold it to what the API demands of one."""
    messages: Sequence[Json] = body["messages"]
    _check(body, messages)
    flat: list[Json] = []
    for message in messages:
        blocks: Sequence[Json] = message["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        flat += [{"role": "tool", "content": block.get("content", "")} for block in results]
        said = [block for block in blocks if block["type"] == "text"]
        if not results or said:
            flat.append({"role": message["role"], "content": said})
    return Conversation.of(flat)


def _check(body: Json, messages: Sequence[Json]) -> None:
    """Refuse, as the API does: ValueError becomes its 400."""
    encoded = json.dumps(body)
    if encoded.count('"cache_control"') > 4:
        raise ValueError("A maximum of 4 blocks with cache_control may be provided.")
    if not isinstance(body["max_tokens"], int) or messages[0]["role"] != "user":
        raise ValueError("max_tokens and a first message of the user are required")
    called: set[str] = set()
    for message in messages:
        blocks = message["content"]
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            raise ValueError("text content blocks must contain non-whitespace text")
        if any("cache_control" in b for b in blocks if b["type"].endswith("thinking")):
            raise ValueError("cache_control cannot be set for thinking blocks")
        results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
        if results != called:
            raise ValueError("each tool_use block must have a tool_result in the next message")
        called = {b["id"] for b in blocks if b["type"] == "tool_use"}
    if called:
        raise ValueError("tool_use ids were found without tool_result blocks immediately after")


def events(
    reply: Reply, conversation: Conversation, model: str, prompt_bytes: int
) -> Iterator[str]:
    """Yield what is sent at a time: a piece of the answer, and what must stand before it."""
    if reply.raw is not None:
        yield from map(framed, reply.raw)
        return
    usage = {"input_tokens": prompt_bytes // 4, "output_tokens": 1, **(reply.usage or {})}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    begin: dict[str, Any] = {**message, "content": [], "stop_reason": None, "usage": usage}
    pending = _event("message_start", message=begin) + _event("ping")
    for number, (block, deltas) in zip(count(), _blocks(reply, conversation), strict=False):
        pending += _event("content_block_start", index=number, content_block=block)
        for delta in deltas:
            yield pending + _event("content_block_delta", index=number, delta=delta)
            pending = ""
        pending += _event("content_block_stop", index=number)
    usual = "tool_use" if reply.tool_calls else "end_turn"
    stop = _STOPS.get(reply.finish_reason, reply.finish_reason or usual)
    final = {"output_tokens": 7, **(reply.usage or {})}
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield pending + _event("message_delta", delta=delta, usage=final)
    yield _event("message_stop")


def _blocks(
    reply: Reply, conversation: Conversation
) -> Iterator[tuple[dict[str, Any], Iterator[dict[str, Any]]]]:
    """Yield each block as it begins, and what is added to it."""
    if reply.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": ""}, _thinking(reply)
    text = filled(reply.text, conversation)
    if text:
        pieces = in_pieces(text, reply.chunk_chars)
        yield {"type": "text", "text": ""}, ({"type": "text_delta", "text": p} for p in pieces)
    for number, call in enumerate(reply.tool_calls):
        block = {"type": "tool_use", "id": call.id or f"toolu_{number}", "name": call.name}
        pieces = in_pieces(call.arguments_text, reply.chunk_chars)
        deltas = ({"type": "input_json_delta", "partial_json": p} for p in pieces)
        yield {**block, "input": {}}, deltas


def _thinking(reply: Reply) -> Iterator[dict[str, Any]]:
    for piece in in_pieces(reply.reasoning, reply.chunk_chars):
        yield {"type": "thinking_delta", "thinking": piece}
    yield {"type": "signature_delta", "signature": SIGNATURE}


def _event(kind: str, **fields: object) -> str:
    return framed(json.dumps({"type": kind, **fields}))


MESSAGES = Speech("/v1/messages", conversation, events)
