"""The wire format of OpenAI's Responses API; translates stored messages to requests."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from agent_service.models.wires.responses_reader import REASONING, ResponsesReading
from agent_service.models.wires.wire import Corrections, Dialect
from agent_service.records.model import ModelRequest, encoded

_OWN = frozenset({REASONING, "message", "function_call"})

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64

Item = dict[str, Any]


def user_item(message: Mapping[str, Any]) -> Item:
    """Return a user's text and pictures."""
    return {"type": "message", "role": "user", "content": _parts(message)}


def assistant_items(message: Mapping[str, Any], thinking: bool = True) -> list[Item]:
    """Return reasoning, text and calls in their order.

    Only reasoning encrypted by this API goes back, and only if `thinking`.
    """
    details = cast("Sequence[Item]", message.get("reasoning_details") or ())
    own = [item for item in details if _goes_back(item) and (thinking or not _is_thought(item))]
    if any(not _is_thought(item) for item in own):
        return own  # a whole answer with reasoning between other items
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
    """Return another provider's id in the allowed length; its end makes it unique."""
    return text[-_LONGEST_NAME:] or "_"


def _is_thought(item: Item) -> bool:
    return item.get("type") == REASONING


def _goes_back(item: Item) -> bool:
    """Whether the API can read it: it stores none, so reasoning needs its content."""
    if item.get("type") not in _OWN:
        return False
    return not _is_thought(item) or bool(item.get("encrypted_content"))


class Responses:
    """The wire format of the Responses API.

    Nothing is stored at the provider: each request has the whole conversation with the encrypted
    reasoning.
    """

    key_header = "Authorization"
    path = "/responses"
    corrections: Corrections = (
        ("encrypted_reasoning", "encrypted content"),
        ("output_cap", "max_output_tokens unsupported"),
        ("temperature", "temperature"),
        ("summary", "summar"),
        ("effort", "reasoning.effort"),
        ("effort", "reasoning_effort"),
    )
    usual_instructions = ""
    """Used if there is no system prompt."""

    def __init__(self, effort: str = "") -> None:
        """`effort` is the reasoning effort; empty is the model's default."""
        self._effort = effort

    def headers(self) -> Mapping[str, str]:
        return {}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request: the system prompt as instructions, the rest as items."""
        instructions, items = _translated(request.messages, dialect.encrypted_reasoning)
        instructions = instructions or self.usual_instructions
        fields = [b'{"model":', encoded(request.model), b',"stream":true,"store":false']
        if dialect.output_cap:
            fields.append(b',"max_output_tokens":%d' % request.max_tokens)
        if dialect.encrypted_reasoning:
            fields.append(b',"include":["reasoning.encrypted_content"]')
        fields.append(dialect.temperature_of(request))
        if self._effort and dialect.effort:
            summary = {"summary": "auto"} if dialect.summary else {}
            fields += [b',"reasoning":', encoded({"effort": self._effort, **summary})]
        if request.tools:
            fields += [b',"tools":', encoded(_tools(request.tools)), b',"tool_choice":"auto"']
        if instructions:
            fields += [b',"instructions":', encoded(instructions)]
        return b"".join([*fields, b',"input":[', b",".join(map(encoded, items)), b"]}"])

    def reading(self) -> ResponsesReading:
        return ResponsesReading()


def _translated(messages: Sequence[bytes], thinking: bool) -> tuple[str, list[dict[str, Any]]]:
    system: list[str] = []
    items: list[dict[str, Any]] = []
    for raw in messages:
        message: Mapping[str, Any] = json.loads(raw)
        match message.get("role"):
            case "system" | "developer":
                system.append(text_of(message))
            case "assistant":
                items += assistant_items(message, thinking)
            case "tool":
                items.append(call_output(message))
            case _:
                items.append(user_item(message))
    return "\n\n".join(text for text in system if text), items


def _tools(tools: bytes) -> list[dict[str, Any]]:
    functions = [tool["function"] for tool in json.loads(tools)]
    return [
        {
            "type": "function",
            "name": function["name"],
            "description": function.get("description", ""),
            "parameters": {
                "type": "object",
                "properties": {},
                **(function.get("parameters") or {}),
            },
            # By default the API makes schemas strict and refuses some.
            "strict": False,
        }
        for function in functions
    ]


class Codex(Responses):
    """The wire format of OpenAI Codex: always with instructions, never with an output cap."""

    usual_instructions = "Answer what you are asked."

    def headers(self) -> Mapping[str, str]:
        return {"originator": "hermes", "OpenAI-Beta": "responses=experimental"}

    def body(self, request: ModelRequest, dialect: Dialect) -> bytes:
        """Return the request without an output cap, which the subscription does not allow."""
        return super().body(request, replace(dialect, output_cap=False))
