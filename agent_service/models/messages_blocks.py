"""Messages as sessions keep them, in the content blocks of Anthropic's Messages API."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

THINKING = frozenset({"thinking", "redacted_thinking"})
_OWN = THINKING | {"text", "tool_use"}

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)
_LONGEST_NAME = 128

Block = dict[str, Any]


def user_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Return texts and pictures of a message; none where it is empty."""
    content = message.get("content")
    if isinstance(content, str):
        return _texts(content)
    blocks: list[Block] = []
    for part in cast("Sequence[Mapping[str, Any]]", content or ()):
        if part.get("type") == "image_url":
            blocks.append({"type": "image", "source": _source(str(part["image_url"]["url"]))})
        else:
            blocks += _texts(str(part.get("text") or ""))
    return blocks


def assistant_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Return what the model thought, said and called, in its own order.

    Of reasoning only the blocks that this API has signed go back, as they came.
    """
    details = cast("Sequence[Block]", message.get("reasoning_details") or ())
    own = [block for block in details if block.get("type") in _OWN]
    if any(block["type"] not in THINKING for block in own):
        return own  # a whole answer, whose thinking stood between other blocks
    calls = cast("Sequence[Mapping[str, Any]]", message.get("tool_calls") or ())
    said = [*user_blocks(message), *(_tool_use(call) for call in calls)]
    return [*own, *said] if said else []


def tool_result(message: Mapping[str, Any]) -> Block:
    """Return the result of a tool call."""
    blocks = user_blocks(message)
    result = {"type": "tool_result", "tool_use_id": _name(str(message.get("tool_call_id") or ""))}
    return {**result, "content": blocks} if blocks else result


def _tool_use(call: Mapping[str, Any]) -> Block:
    function = call["function"]
    try:
        arguments: Any = json.loads(function.get("arguments") or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        # The API takes objects only; the result that follows says what was wrong with it.
        arguments = {"malformed": str(function.get("arguments"))}
    return {
        "type": "tool_use",
        "id": _name(str(call["id"])),
        "name": _name(str(function["name"])),
        "input": cast("Block", arguments),
    }


def _texts(text: str) -> list[Block]:
    # A text of white space alone is refused like an empty one.
    return [{"type": "text", "text": text}] if text.strip() else []


def _source(url: str) -> Block:
    inline = _DATA_URL.fullmatch(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1], "data": inline[2]}


def _name(text: str) -> str:
    """Return a name of another provider's in the characters that are allowed here."""
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME] or "_"
