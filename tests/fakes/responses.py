"""OpenAI's Responses API as a scripted model speaks it: its events, numbered and in its order."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from tests.fakes.model_chunks import filled, framed, in_pieces
from tests.fakes.model_script import Conversation, Json, Reply
from tests.fakes.model_server import Speech

ENCRYPTED = "gAAAAABmVGhpbmtpbmc="
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


def conversation(body: Json) -> Conversation:
    """Read the last turn of a request, and hold it to what the API demands of one."""
    items: Sequence[Json] = body["input"]
    _check(body, items)
    flat: list[Json] = []
    answering = False
    for item in items:
        match item["type"]:
            case "function_call_output":
                flat.append({"role": "tool", "content": _plain(item["output"])})
                answering = False
            case "message" if item["role"] == "user":
                flat.append({"role": "user", "content": _plain(item["content"])})
                answering = False
            case _ if not answering:  # all items of an answer are one message
                flat.append({"role": "assistant", "content": ""})
                answering = True
            case _:
                pass
    return Conversation.of(flat)


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content)


def _check(body: Json, items: Sequence[Json]) -> None:
    """Refuse, as the API does: ValueError becomes its 400."""
    if body.get("store") is not False or "messages" in body:
        raise ValueError("input without store: false leaves the conversation with the provider")
    if "max_output_tokens" in body and body["max_output_tokens"] < 16:
        raise ValueError("max_output_tokens must be at least 16")
    for item, after in zip(items, [*items[1:], {"type": ""}], strict=True):
        _check_item(item, after)
    waiting: set[str] = set()
    for item in items:
        if item["type"] == "function_call":
            waiting.add(item["call_id"])
        elif item["type"] == "function_call_output":
            waiting.remove(item["call_id"])  # KeyError: no tool call found for this output
        elif item.get("role") == "user" and waiting:
            break
    if waiting:
        raise ValueError("No tool output found for function call")


def _check_item(item: Json, after: Json) -> None:
    match item["type"]:
        case "reasoning":
            if not item.get("encrypted_content") or "summary" not in item:
                raise ValueError("Items are not persisted when store is set to false")
            if after["type"] not in {"reasoning", "message", "function_call"}:
                raise ValueError("reasoning was provided without its required following item")
        case "function_call":
            if len(item["call_id"]) > 64 or not isinstance(item["arguments"], str):
                raise ValueError("function_call: invalid call_id or arguments")
        case "message":
            kind = "output_" if item["role"] == "assistant" else "input_"
            if not all(part["type"].startswith(kind) for part in item["content"]):
                raise ValueError(f"content of the {item['role']} must be {kind}text")
        case "function_call_output":
            pass
        case other:
            raise ValueError(f"Invalid value: {other!r}")


class _Stream:
    """Numbers the events of one response."""

    def __init__(self, model: str) -> None:
        self._numbers = count()
        base = {"id": "resp_1", "object": "response", "model": model, "error": None}
        self.response: dict[str, Any] = {**base, "incomplete_details": None, "store": False}

    def event(self, kind: str, **fields: object) -> str:
        number = next(self._numbers)
        return framed(json.dumps({"type": kind, "sequence_number": number, **fields}))


def events(
    reply: Reply, conversation: Conversation, model: str, prompt_bytes: int
) -> Iterator[str]:
    """Yield what is sent at a time: a piece of the answer, and what must stand before it."""
    if reply.raw is not None:
        yield from map(framed, reply.raw)
        return
    stream, output = _Stream(model), list[Json]()
    nothing: list[Json] = []
    running = {**stream.response, "status": "in_progress", "output": nothing, "usage": None}
    pending = stream.event("response.created", response=running)
    pending += stream.event("response.in_progress", response=running)
    for index, (begun, kind, pieces, done) in enumerate(_items(reply, conversation)):
        pending += stream.event("response.output_item.added", output_index=index, item=begun)
        where = {"item_id": begun["id"], "output_index": index}
        if kind == "response.reasoning_summary_text.delta":
            where["summary_index"] = 0
        elif kind == "response.output_text.delta":
            where["content_index"] = 0
        for piece in pieces:
            yield pending + stream.event(kind, **where, delta=piece)
            pending = ""
        pending += stream.event("response.output_item.done", output_index=index, item=done)
        output.append(done)
    reason = _REASONS.get(reply.finish_reason)
    status = "incomplete" if reason else "completed"
    usage = {"input_tokens": prompt_bytes // 4, "output_tokens": 7, **(reply.usage or {})}
    over = {**stream.response, "status": status, "output": output, "usage": usage}
    if reason:
        over["incomplete_details"] = {"reason": reason}
    yield pending
    yield stream.event(f"response.{status}", response=over)


def _items(
    reply: Reply, conversation: Conversation
) -> Iterator[tuple[dict[str, Any], str, Iterator[str], dict[str, Any]]]:
    """Yield each item as it begins, the kind and text of what is added, and the item at its end."""
    size = reply.chunk_chars
    if reply.reasoning:
        begun: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": []}
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        done = {**begun, "summary": summary, "encrypted_content": ENCRYPTED}
        kind = "response.reasoning_summary_text.delta"
        yield begun, kind, in_pieces(reply.reasoning, size), done
    text = filled(reply.text, conversation)
    if text:
        begun = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
        notes: list[Json] = []
        content = [{"type": "output_text", "text": text, "annotations": notes}]
        done = {**begun, "content": content, "status": "completed"}
        begun["status"] = "in_progress"
        yield begun, "response.output_text.delta", in_pieces(text, size), done
    for number, call in enumerate(reply.tool_calls):
        call_id = call.id or f"call_{number}"
        begun = {"id": f"fc_{number}", "type": "function_call", "call_id": call_id}
        begun |= {"name": call.name, "arguments": "", "status": "in_progress"}
        done = {**begun, "arguments": call.arguments_text, "status": "completed"}
        kind = "response.function_call_arguments.delta"
        yield begun, kind, in_pieces(call.arguments_text, size), done


RESPONSES = Speech("/v1/responses", conversation, events)
