"""The wire format of OpenAI's Responses API: requests, translated from what sessions keep."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from agent_service.models.base import ModelRequest, encoded
from agent_service.models.errors import ModelError
from agent_service.models.responses_items import (
    assistant_items,
    call_output,
    text_of,
    user_item,
)
from agent_service.models.responses_reading import ResponsesReading
from agent_service.models.wire import Dialect


class Responses:
    """Requests and answers of the Responses API, as a provider takes them.

    Nothing is left with the provider: every request has the whole conversation, and what the
    model thought goes back encrypted, as it came.
    """

    sdk = "openai"
    path = "/responses"
    usual_instructions = ""
    """What stands for a system prompt where there is none."""

    def __init__(self, effort: str = "") -> None:
        """Take how hard a model is to think; empty is as it likes."""
        self._effort = effort

    def headers(self) -> Mapping[str, str]:
        """Nothing beyond what the SDK sends."""
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

    def corrected(self, dialect: Dialect, error: ModelError) -> Dialect | None:
        """Leave out what the model does not take."""
        if error.status not in {400, 422}:
            return None
        words = error.detail.lower()
        if dialect.encrypted_reasoning and ("encrypted" in words and "content" in words):
            return replace(dialect, encrypted_reasoning=False)
        if dialect.output_cap and "max_output_tokens" in words and "unsupported" in words:
            return replace(dialect, output_cap=False)
        if (other := dialect.without_temperature(error)) is not None or not self._effort:
            return other
        if dialect.summary and "summar" in words:
            return replace(dialect, summary=False)
        if dialect.effort and ("reasoning.effort" in words or "reasoning_effort" in words):
            return replace(dialect, effort=False)
        return None

    def reading(self) -> ResponsesReading:
        """Begin to read an answer."""
        return ResponsesReading()


def _translated(messages: Sequence[bytes], thinking: bool) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt, and the items of the other messages."""
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
            # The API would otherwise change schemas that are not strict, and refuse some.
            "strict": False,
        }
        for function in functions
    ]
