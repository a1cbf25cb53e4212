"""From a scripted answer to the chunks of a chat completions stream."""

import json
from collections.abc import Iterator
from typing import Any, cast

from tests.fakes.model_script import Conversation, Json, Reply

_ID = "chatcmpl-scripted"


def data_lines(
    reply: Reply, conversation: Conversation, model: str, prompt_bytes: int
) -> Iterator[str]:
    """Yield the data of each event of an answer, the final `[DONE]` included."""
    if reply.raw is not None:
        yield from reply.raw
        return
    text = filled(reply.text, conversation)
    head = json.dumps({"id": _ID, "object": "chat.completion.chunk", "created": 0, "model": model})
    head = head.removesuffix("}")  # every chunk begins alike, and is encoded but once
    for delta in _deltas(reply, text):
        yield f'{head}, "choices": [{{"index": 0, "delta": {json.dumps(delta)}}}]}}'
    finish = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
    choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": finish}
    yield f'{head}, "choices": [{json.dumps(choice)}]}}'
    usage = reply.usage or _estimate(reply, text, prompt_bytes)
    yield f'{head}, "choices": [], "usage": {json.dumps(usage)}}}'
    yield "[DONE]"


def filled(text: str, conversation: Conversation) -> str:
    """A text with what its placeholders stand for."""
    if "{" not in text:
        return text
    return text.replace("{user}", conversation.user).replace(
        "{tool_result}", conversation.tool_result.strip()
    )


def _deltas(reply: Reply, text: str) -> Iterator[dict[str, Any]]:
    for piece in in_pieces(reply.reasoning, reply.chunk_chars):
        if reply.reasoning_field == "reasoning_details":
            detail = {"type": "reasoning.text", "text": piece, "index": 0}
            yield {"reasoning": piece, "reasoning_details": [detail]}
        else:
            yield {reply.reasoning_field: piece}
    for piece in in_pieces(text, reply.chunk_chars):
        yield {"content": piece}
    for index, call in enumerate(reply.tool_calls):
        call_id = call.id or f"call_{index}"
        head = {"index": index, "id": call_id, "type": "function"}
        first, *rest = list(in_pieces(call.arguments_text, reply.chunk_chars)) or [""]
        yield {"tool_calls": [{**head, "function": {"name": call.name, "arguments": first}}]}
        for piece in rest:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def in_pieces(text: str, size: int) -> Iterator[str]:
    """Cut a text into pieces of a size; 0 leaves it whole."""
    for start in range(0, len(text), size or len(text) or 1):
        yield text[start : start + size] if size else text


def framed(line: str) -> str:
    """The event whose data is a line, named after its type."""
    try:
        document: Any = json.loads(line)
    except ValueError:
        document = None
    name = cast("Json", document).get("type", "") if isinstance(document, dict) else ""
    return f"event: {name}\ndata: {line}\n\n"


def _estimate(reply: Reply, text: str, prompt_bytes: int) -> dict[str, Any]:
    """Count about four characters to a token, as most models come to."""
    written = len(text) + len(reply.reasoning)
    written += sum(len(call.arguments_text) for call in reply.tool_calls)
    prompt, completion = prompt_bytes // 4, max(1, written // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
