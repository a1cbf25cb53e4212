"""Answers what a server asks during a call: questions to the user and to the model.

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
from agent_service.tools.mcp.forms import FormField, Value

MAX_QUESTIONS = 40
MAX_SAMPLES = 10
MAX_SAMPLE_CHARS = 200_000
_SHOWN_CHARS = 500
_MAX_QUESTION_CHARS = 1_200
_REFUSALS = frozenset({"decline", "cancel"})
_KEY_CHARS = 12


class RefusingHandler:
    """Refuses all requests, as no tool call is under way."""

    def progress(self, text: str) -> None:
        return

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        raise ToolFailed("It asked the model, which prompts cannot do.")


class ToolRequestHandler:
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
        text = f"The MCP server {self._server} asks: {params.message[:_MAX_QUESTION_CHARS]}"
        if isinstance(params, types.ElicitRequestURLParams):
            question = f"{text}\nOpen this page, if you trust the server: {params.url}"
            # The answer counts for this page only, even if the repeated call asks for another.
            page = int(hashlib.sha256(params.url.encode()).hexdigest()[:_KEY_CHARS], 16)
            answer = await self._ask(question, ("done", "decline"), page)
            return types.ElicitResult(action="accept" if answer == "done" else "decline")
        schema = cast("Mapping[str, Any]", params.requested_schema)
        schemas: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
        if not schemas:
            answer = await self._ask(text, ("accept", "decline"))
            return types.ElicitResult(action="accept" if answer == "accept" else "decline")
        try:
            fields = {name: FormField.from_schema(one) for name, one in schemas.items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise ToolFailed(f"The MCP server {self._server} asks the user: {error}.") from error
        content: dict[str, Value] = {}
        for name, field in fields.items():
            title = schemas[name].get("title") or name
            about = ": ".join(map(str, filter(None, (title, schemas[name].get("description")))))
            is_optional = name not in (schema.get("required") or ())
            answer = await self._answer(
                f"{text}\n{about[:_MAX_QUESTION_CHARS]}", field, is_optional
            )
            if isinstance(answer, types.ElicitResult):
                return answer
            content |= {} if answer is None else {name: answer}
        return types.ElicitResult(action="accept", content=cast("Any", content))

    async def sample(self, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        """Ask the conversation's model, within its budget, once a person allows it."""
        self._samples += 1
        messages = list(_messages(params))
        words = sum(len(message["content"]) for message in messages)
        if self._samples > MAX_SAMPLES or words > MAX_SAMPLE_CHARS:
            raise ToolFailed(f"The MCP server {self._server} asks the model for too much.")
        shown = messages[-1]["content"][:_SHOWN_CHARS] if messages else ""
        subject = (
            f"The MCP server {self._server} wants to ask the model, at your cost and up to "
            f"{MAX_SAMPLES} times in this call. Its first question: {shown}"
        )
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

    async def _answer(
        self, said: str, field: FormField, is_optional: bool
    ) -> Value | types.ElicitResult | None:
        """Ask until an answer fits; None if the user leaves the field out."""
        default = field.default_text
        skips = f" “-” is {default}." if default else " “-” leaves it out." if is_optional else ""
        problem = ""
        shown = field.names if field.type != "array" and len(field.names) <= MAX_CHOICES else ()
        shown += ("decline",) if shown and len(shown) < MAX_CHOICES else ()
        while True:
            wish = f"{problem}Answer with {field.requirement}"[:_MAX_QUESTION_CHARS]
            question = f"{said}\n{wish}, or with “decline” to refuse.{skips}"
            answer = await self._ask(question, shown)
            if answer is None or answer.strip().lower() in _REFUSALS:
                return types.ElicitResult(action="cancel" if answer is None else "decline")
            answer = answer.strip()
            if answer in ("", "-") and skips:
                if not default:
                    return None
                answer = default
            try:
                return field.parse(answer)
            except ValueError:
                problem = f"“{answer[:_SHOWN_CHARS]}” does not fit. "

    async def _ask(self, question: str, choices: Sequence[str], number: int = 0) -> str | None:
        """A person's answer; questions without a number are counted."""
        context = self._context
        self._asked += 1
        if context.inner is None or self._asked > MAX_QUESTIONS:
            return None
        return await context.inner.ask(number or self._asked, question, choices)


def _messages(params: types.CreateMessageRequestParams) -> Sequence[dict[str, str]]:
    messages: list[dict[str, str]] = []
    if params.system_prompt:
        messages.append({"role": "system", "content": params.system_prompt})
    for message in params.messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        texts = [block.text for block in blocks if isinstance(block, types.TextContent)]
        messages.append({"role": message.role, "content": "\n".join(texts)})
    return messages
