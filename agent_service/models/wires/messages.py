"""The wire format of Anthropic's Messages API; translates stored messages to requests."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_service.models.data_urls import DATA_URL
from agent_service.models.endpoints import MESSAGES_VERSION
from agent_service.models.wires.messages_reader import THINKING, MessagesReading
from agent_service.models.wires.wire import MARKED_MESSAGES, Corrections, Dialect, cache_control
from agent_service.records.model import ModelRequest, encoded
from services.validation import json_object

_OWN = THINKING | {"text", "tool_use"}

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 128

Block = dict[str, Any]


def user_blocks(message: Mapping[str, Any]) -> list[Block]:
    """Return the texts and pictures of a message; empty if there are none."""
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
    """Return thinking, text and calls in order; only thinking signed by this API goes back."""
    details = cast("Sequence[Block]", message.get("reasoning_details") or ())
    own = [block for block in details if block.get("type") in _OWN]
    if any(block["type"] not in THINKING for block in own):
        return own  # a whole answer with thinking between other blocks
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
    arguments = json_object(function.get("arguments") or "{}")
    if arguments is None:
        # The API takes only objects; the result that follows explains what was wrong.
        arguments = {"malformed": str(function.get("arguments"))}
    return {
        "type": "tool_use",
        "id": _name(str(call["id"])),
        "name": _name(str(function["name"])),
        "input": arguments,
    }


def _texts(text: str) -> list[Block]:
    # The API refuses a text of only white space, like an empty one.
    return [{"type": "text", "text": text}] if text.strip() else []


def _source(url: str) -> Block:
    inline = DATA_URL.fullmatch(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1], "data": inline[2]}


def _name(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME] or "_"


EFFORTS: Mapping[str, int] = {"low": 2_048, "medium": 8_192, "high": 32_768}
"""Thinking tokens, for models that take a number."""

_LEAST_THINKING = 1_024


class Messages:
    """The wire format of the Messages API."""

    key_header = "X-Api-Key"
    path = "/v1/messages"
    corrections: Corrections = (
        ("adaptive_thinking", "adaptive"),  # those take a number of thinking tokens
        ("adaptive_thinking", "effort"),
        ("temperature", "temperature"),
    )

    def __init__(self, cache_ttl: str = "5m", effort: str = "") -> None:
        """`cache_ttl` is 5m or 1h; `effort` is the reasoning effort."""
        self._mark = b',"cache_control":' + encoded(cache_control(cache_ttl))
        self._effort = effort

    def headers(self) -> Mapping[str, str]:
        return {"anthropic-version": MESSAGES_VERSION}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request: system prompt and messages as blocks with cache marks."""
        system, turns = _translated(request.messages)
        marked = len(turns) - MARKED_MESSAGES
        messages = b",".join(
            self._turn(role, blocks, number >= marked)
            for number, (role, blocks) in enumerate(turns)
        )
        fields = [b'{"model":', encoded(request.model), b',"stream":true']
        fields.append(b',"max_tokens":%d' % request.max_tokens)
        thinking = self._thinking(request, turns, dialect)
        fields.append(thinking or dialect.temperature_of(request))  # thinking forbids a temperature
        if request.tools:
            fields += [b',"tools":', encoded(_tools(request.tools))]
            fields.append(b',"tool_choice":{"type":"auto"}')
        if system:
            fields += [b',"system":', self._blocks(system, True)]
        return b"".join([*fields, b',"messages":[', messages, b"]}"])

    def reading(self) -> MessagesReading:
        return MessagesReading()

    def _turn(self, role: str, blocks: Sequence[Mapping[str, Any]], marked: bool) -> bytes:
        return b'{"role":"%b","content":%b}' % (role.encode(), self._blocks(blocks, marked))

    def _blocks(self, blocks: Sequence[Mapping[str, Any]], marked: bool) -> bytes:
        """Encode blocks; the mark goes in the last one, which is never a thinking block."""
        text = encoded(blocks)
        if not marked or blocks[-1].get("type") in THINKING:
            return text
        return text[:-2] + self._mark + b"}]"

    def _thinking(self, request: ModelRequest, turns: Sequence["_Turn"], dialect: Dialect) -> bytes:
        if not self._effort or not _may_think(turns):
            return b""
        if dialect.adaptive_thinking:
            return (
                b',"thinking":{"type":"adaptive","display":"summarized"}'
                b',"output_config":{"effort":"%b"}' % self._effort.encode()
            )
        tokens = min(EFFORTS[self._effort], request.max_tokens // 2)
        if tokens < _LEAST_THINKING:
            return b""
        return b',"thinking":{"type":"enabled","budget_tokens":%d}' % tokens


_Turn = tuple[str, list[dict[str, Any]]]


def _translated(messages: Sequence[bytes]) -> tuple[list[dict[str, Any]], list[_Turn]]:
    """Return the system prompt's blocks, and role and blocks of each message.

    Results of one answer's tool calls share a message, as the API demands.
    """
    system: list[dict[str, Any]] = []
    turns: list[_Turn] = []
    results: list[dict[str, Any]] | None = None
    for raw in messages:
        message: Mapping[str, Any] = json.loads(raw)
        role = message.get("role")
        if role == "tool":
            if results is None:
                results = []
                turns.append(("user", results))
            results.append(tool_result(message))
            continue
        results = None
        if role in {"system", "developer"}:
            system += user_blocks(message)
            continue
        blocks = assistant_blocks(message) if role == "assistant" else user_blocks(message)
        if blocks:  # the API refuses empty messages
            turns.append(("assistant" if role == "assistant" else "user", blocks))
    return system, turns


def _may_think(turns: Sequence[_Turn]) -> bool:
    """Whether the answers to the last user message start with thinking, as the API demands.

    They do not if another model, or this one without thinking, has called tools.
    """
    for role, blocks in reversed(turns):
        if role == "user" and blocks[0]["type"] != "tool_result":
            return True
        if role == "assistant" and blocks[0]["type"] not in THINKING:
            return False
    return True


def _tools(tools: bytes) -> list[dict[str, Any]]:
    functions = [tool["function"] for tool in json.loads(tools)]
    return [
        {
            "name": function["name"],
            "description": function.get("description", ""),
            "input_schema": {"type": "object", **(function.get("parameters") or {})},
        }
        for function in functions
    ]
