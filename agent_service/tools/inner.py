"""Tool calls made by another call, such as a program: each journaled before it runs, and run once.

Each has a numbered slot in the session's state. A session runs one program at a time and commits
its result before the next one, so a slot is reused only when nobody needs its content.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from agent_service.records.calls import Decided, PendingCall, StepState
from agent_service.records.events import CLARIFY
from agent_service.records.model import ToolCall
from agent_service.tools.base import SessionState, Tool, ToolResult
from agent_service.tools.clarify import ANSWER
from agent_service.tools.guards.approval import DecisionRequired
from agent_service.tools.output import ends
from services.validation import convert, json_object

CALLABLE = (
    "web_search",
    "web_extract",
    "read_file",
    "write_file",
    "search_files",
    "patch",
    "terminal",
)
MAX_RESULT_CHARS = 200_000
_NOT_INSIDE = ("background", "pty", "notify_on_complete", "watch_patterns")


class JournaledCalls:
    """The calls that one call makes."""

    def __init__(
        self,
        outer: PendingCall,
        state: SessionState,
        run: Callable[[PendingCall], Awaitable[ToolResult]],
        tools: Sequence[Tool[Any]],
        decisions: Mapping[str, Decided],
    ) -> None:
        self._outer = outer
        self._decisions = decisions
        self._state = state
        self._run = run
        self._tools = {tool.name: tool for tool in tools if tool.name in CALLABLE}
        self._can_ask = any(tool.name == CLARIFY for tool in tools)

    def functions(self) -> Mapping[str, list[str]]:
        return {
            name: [field for field in tool.arguments.model_fields if field not in _NOT_INSIDE]
            for name, tool in self._tools.items()
        }

    async def call(self, number: int, name: str, arguments_json: str) -> ToolResult:
        if name not in self._tools:
            known = ", ".join(self._tools) or "none"
            return ToolResult(
                f"A program cannot call {name!r}. It can call: {known}.", is_error=True
            )
        if not_here := _only_outside(arguments_json):
            return ToolResult(f"A program cannot use {not_here} of {name}.", is_error=True)
        return await self._journaled(number, name, arguments_json)

    def question(self, name: str) -> PendingCall:
        return replace(self._outer, key=inner_key(self._outer.key, name))

    def decided(self, question: PendingCall) -> Decided:
        return self._decisions.get(question.key, Decided())

    async def ask(self, number: int, question: str, choices: Sequence[str]) -> str | None:
        if not self._can_ask:
            return None
        text = encode({"question": question, "choices": list(choices)}).decode()
        result = await self._journaled(number, CLARIFY, text)
        is_answered = not result.is_error and result.text.startswith(ANSWER)
        return result.text.removeprefix(ANSWER) if is_answered else None

    async def _journaled(self, number: int, name: str, arguments_json: str) -> ToolResult:
        place, key = f"inner:{number}", inner_key(self._outer.key, number)
        known: dict[str, Any] = await self._state.get(place) or {}
        if known.get("key") != key:
            known = {}
        if "result" in known:
            return convert(known["result"], ToolResult)
        if not known:
            await self._state.put(place, {"key": key})
        try:
            result = await self._make(key, name, arguments_json, may_have_run=bool(known))
        except DecisionRequired:
            # The call has not started: it runs for the first time after the decision.
            await self._state.put(place, {})
            raise
        text = ends(result.text, MAX_RESULT_CHARS, 0)
        result = replace(result, text=text, beside="", pictures=())
        await self._state.put(place, {"key": key, "result": to_builtins(result)})
        return result

    async def _make(
        self, key: str, name: str, arguments_json: str, *, may_have_run: bool
    ) -> ToolResult:
        state = StepState.DISPATCHED if may_have_run else StepState.INTENT
        asked = ToolCall(f"call_{key}", name, arguments_json)
        resumed = self._outer.resumed
        call = PendingCall(key, asked, self._outer.sequence, 0, state, resumed)
        try:
            return await self._run(call)
        except DecisionRequired as required:
            raise DecisionRequired(required.subject, required.binding, call) from required


def _only_outside(arguments_json: str) -> str:
    """The first parameter that programs may not set; empty if there is none."""
    given = json_object(arguments_json) or {}
    return next((name for name in _NOT_INSIDE if given.get(name)), "")


def inner_key(outer_key: str, number: int | str) -> str:
    """The key of an inner call; without a number, the prefix of all such keys."""
    return f"{outer_key}.{number}"
