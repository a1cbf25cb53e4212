"""Messages as sessions keep them, in the items of OpenAI's Responses API."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

REASONING = "reasoning"
_OWN = frozenset({REASONING, "message", "function_call"})

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64

Item = dict[str, Any]


def user_item(message: Mapping[str, Any]) -> Item:
    """Return what a person said, with pictures."""
    return {"type": "message", "role": "user", "content": _parts(message)}


def assistant_items(message: Mapping[str, Any], thinking: bool = True) -> list[Item]:
    """Return what the model thought, said and called, in its own order.

    Of reasoning only what this API has encrypted goes back, as it came, and only if `thinking`.
    """
    details = cast("Sequence[Item]", message.get("reasoning_details") or ())
    own = [item for item in details if _goes_back(item) and (thinking or not _is_thought(item))]
    if any(not _is_thought(item) for item in own):
        return own  # a whole answer, whose reasoning stood between other items
    calls = cast("Sequence[Mapping[str, Any]]", message.get("tool_calls") or ())
    text = text_of(message)
    said: list[Item] = []
    if text:
        content = [{"type": "output_text", "text": text}]
        said.append({"type": "message", "role": "assistant", "content": content})
    said += [_function_call(call) for call in calls]
    return [*own, *said] if said else []


def call_output(message: Mapping[str, Any]) -> Item:
    """Return the result of a tool call."""
    content = message.get("content")
    return {
        "type": "function_call_output",
        "call_id": _call_id(str(message.get("tool_call_id") or "")),
        "output": content if isinstance(content, str) else _parts(message),
    }


def text_of(message: Mapping[str, Any]) -> str:
    """Return the texts of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Mapping[str, Any]]", content or ())
    return "".join(str(part.get("text") or "") for part in parts)


def _parts(message: Mapping[str, Any]) -> list[Item]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    parts = cast("Sequence[Mapping[str, Any]]", content or ())
    return [_part(part) for part in parts]


def _part(part: Mapping[str, Any]) -> Item:
    if part.get("type") == "image_url":
        image = part["image_url"]
        url, detail = str(image["url"]), image.get("detail") or "auto"
        return {"type": "input_image", "image_url": url, "detail": detail}
    return {"type": "input_text", "text": str(part.get("text") or "")}


def _function_call(call: Mapping[str, Any]) -> Item:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": _call_id(str(call["id"])),
        "name": _NOT_IN_NAMES.sub("_", str(function["name"]))[:_LONGEST_NAME] or "_",
        "arguments": str(function.get("arguments") or "{}"),
    }


def _call_id(text: str) -> str:
    """Return an id of another provider's in the length that is allowed: its end tells it apart."""
    return text[-_LONGEST_NAME:] or "_"


def _is_thought(item: Item) -> bool:
    return item.get("type") == REASONING


def _goes_back(item: Item) -> bool:
    """Whether the API can read it: it keeps none, so that thoughts must have their content."""
    if item.get("type") not in _OWN:
        return False
    return not _is_thought(item) or bool(item.get("encrypted_content"))
