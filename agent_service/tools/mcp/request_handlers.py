"""What a server may ask during a call: questions to the user, and answers of the model.

If a person must decide first, the call ends and is made again with the decision.
Imports the SDK's types, so it is imported late.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import mcp_types as types

from agent_service.models.consult import NoAnswer
from agent_service.tools.base import ToolContext, ToolFailed
from agent_service.tools.clarify import MAX_CHOICES
from agent_service.tools.guards.approval import check_each_allowed

MAX_QUESTIONS = 20
MAX_SAMPLES = 10
MAX_SAMPLE_CHARS = 200_000
_SHOWN_CHARS = 500
_MAX_QUESTION_CHARS = 1_200
_REFUSALS = frozenset({"decline", "cancel"})
_YES, _NO = frozenset({"yes", "true", "y", "1"}), frozenset({"no", "false", "n", "0"})

Value = str | int | float | bool | list[str] | None


class Nobody:
    """Answers a server when no tool call is under way."""

    def progress(self, text: str) -> None:
        return

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        raise ToolFailed("It asked the model, which prompts cannot do.")


class ToolHost:
    """Answers a server on behalf of one tool call."""

    def __init__(self, server: str, tool: str, context: ToolContext) -> None:
        self._server = server
        self._tool = tool
        self._context = context
        self._asked = 0
        self._samples = 0

    def progress(self, text: str) -> None:
        self._context.progress(text)

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the user field by field; decline if nobody can answer."""
        said = f"The MCP server {self._server} asks: {params.message[:_MAX_QUESTION_CHARS]}"
        if isinstance(params, types.ElicitRequestURLParams):
            question = f"{said}\nOpen this page, if you trust the server: {params.url}"
            answer = await self._ask(question, ("done", "decline"))
            return types.ElicitResult(action="accept" if answer == "done" else "decline")
        schema = cast("Mapping[str, Any]", params.requested_schema)
        fields: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
        if not fields:
            answer = await self._ask(said, ("accept", "decline"))
            return types.ElicitResult(action="accept" if answer == "accept" else "decline")
        content: dict[str, Value] = {}
        for name, field in fields.items():
            optional = name not in (schema.get("required") or ())
            answer = await self._field(said, name, field, optional=optional)
            if answer is None or answer.strip().lower() in _REFUSALS:
                return types.ElicitResult(action="cancel" if answer is None else "decline")
            if answer.strip() or not optional:
                content[name] = _value(field, answer.strip())
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Ask the conversation's model, within its budget, once a person allows it."""
        self._samples += 1
        messages = list(_messages(params))
        words = sum(len(message["content"]) for message in messages)
        if self._samples > MAX_SAMPLES or words > MAX_SAMPLE_CHARS:
            raise ToolFailed(f"The MCP server {self._server} asks the model for too much.")
        shown = messages[-1]["content"][:_SHOWN_CHARS] if messages else ""
        subject = f"The MCP server {self._server} wants to ask the model, at your cost: {shown}"
        binding = hashlib.sha256(f"mcp sampling {self._server}".encode()).hexdigest()
        await check_each_allowed(self._tool, subject, binding, self._context)
        try:
            text = await self._context.ask(messages)
        except NoAnswer as error:
            raise ToolFailed(f"The MCP server {self._server} asked the model: {error}") from error
        content = types.TextContent(type="text", text=text)
        return types.CreateMessageResult(
            role="assistant", content=content, model="hermes", stop_reason="endTurn"
        )

    async def _field(
        self, said: str, name: str, field: Mapping[str, Any], *, optional: bool
    ) -> str | None:
        title = field.get("title") or name
        about = f": {field['description']}" if field.get("description") else ""
        choices = _choices(field)
        lines = [said, f"{title}{about}"[:_MAX_QUESTION_CHARS]]
        if len(choices) > MAX_CHOICES:
            lines.append(f"One of: {', '.join(choices)}"[:_MAX_QUESTION_CHARS])
        lines.append("Answer “decline” to refuse." + (" “-” leaves it out." if optional else ""))
        shown = tuple(choices) if len(choices) <= MAX_CHOICES else ()
        answer = await self._ask("\n".join(lines), shown)
        return "" if optional and answer is not None and answer.strip() == "-" else answer

    async def _ask(self, question: str, choices: Sequence[str]) -> str | None:
        context = self._context
        if context.inner is None or self._asked >= MAX_QUESTIONS:
            return None
        self._asked += 1
        return await context.inner.ask(self._asked, question, choices)


def _choices(field: Mapping[str, Any]) -> Sequence[str]:
    if field.get("type") == "boolean":
        return ("yes", "no")
    options = field.get("oneOf") or field.get("anyOf") or ()
    named = [str(one["const"]) for one in options if "const" in one]
    return named or [str(one) for one in field.get("enum") or ()]


def _value(field: Mapping[str, Any], answer: str) -> Value:
    """An answer in the field's type, or as it is if that is impossible; the server judges it."""
    word = answer.lower()
    match field.get("type"):
        case "boolean" if word in _YES or word in _NO:
            return word in _YES
        case "integer" if word.removeprefix("-").isdigit():
            return int(word)
        case "number":
            try:
                return float(word)
            except ValueError:
                return answer
        case "array":
            return [one.strip() for one in answer.split(",") if one.strip()]
        case _:
            return answer


def _messages(params: types.CreateMessageRequestParams) -> Sequence[dict[str, str]]:
    messages: list[dict[str, str]] = []
    if params.system_prompt:
        messages.append({"role": "system", "content": params.system_prompt})
    for message in params.messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
        messages.append({"role": message.role, "content": "\n".join(texts)})
    return messages
