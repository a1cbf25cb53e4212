"""Runs the tool calls of one assistant message, in parallel where they do not conflict."""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from agent_service.models.consult import Help
from agent_service.records import events
from agent_service.records.arguments import arguments_of, find_name, normalize
from agent_service.records.calls import PendingCall, StepState
from agent_service.records.commands import ApprovalNeeded, Fact, ToolDispatched, ToolReturned
from agent_service.records.events import ToolProgress, TurnFinished
from agent_service.records.mcp import SessionServers
from agent_service.records.model import ModelMessage, encoded
from agent_service.records.overlays import NOTHING as NO_OVERLAY
from agent_service.records.overlays import Overlay
from agent_service.records.requests import REVIEW, Unattended
from agent_service.records.sandbox import (
    CommandUncertain,
    PathRefused,
    SandboxInfo,
    SandboxUnavailable,
)
from agent_service.records.turn_state import LiveTurn
from agent_service.tools import advice
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ShownPictures,
    Tool,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
)
from agent_service.tools.guards.approval import HALTED, NOBODY_TO_ASK, DecisionRequired
from agent_service.tools.guards.refusals import refused
from agent_service.tools.inner import JournaledCalls
from agent_service.tools.output import LEAN_TURN_CHARS, TURN_CHARS, ResultRoom
from agent_service.tools.schema import LEAN, describe, describe_briefly, explain, validated
from agent_service.tools.spans import tool_span
from services.database import DatabaseDamaged
from services.errors import DatabaseUnavailable, HermesError, Reason
from services.lifecycle import Workers
from services.redaction.redactor import Redactor

MAX_PARALLEL_CALLS = 8
MCP = "mcp"
_SESSIONS = 128
"""The number of sessions whose tools and schemas are kept."""
_READING = frozenset({"terminal", "file"})
"""A result that went to a file can be read with any of these toolsets."""

_UNCERTAIN = (
    "It is unknown whether this call took effect, because the system was interrupted while it "
    "ran. It was not run again. Check the current state before you repeat it."
)

_log = logging.getLogger(__name__)

ContextFactory = Callable[[LiveTurn, PendingCall, Callable[[str], None]], ToolContext]
Asks = Callable[[LiveTurn, Callable[[Fact], Awaitable[None]]], Help]
"""Makes the functions that ask models for a turn, given a function that stores facts."""
Outcome = tuple[Fact, ...] | ToolProgress


class _Prepared(Struct, frozen=True):
    call: PendingCall
    tool: Tool[Any]
    arguments: ToolArguments


class Toolbox:
    """The tools of a deployment; runs their calls."""

    def __init__(
        self,
        tools: Sequence[Tool[Any]],
        context: ContextFactory,
        redactor: Redactor | None = None,
        asks: Asks | None = None,
        more: Callable[[SessionServers], Sequence[Tool[Any]]] = lambda _: (),
    ) -> None:
        """`redactor` removes secrets from questions to people; `asks` asks models; `more` makes the
        tools of a session's servers.
        """
        self._redactor = redactor or Redactor()
        self._asks = asks
        self._more = lru_cache(_SESSIONS)(more)
        self._tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}
        self._context = context
        self._schemas = lru_cache(_SESSIONS)(self._described)

    def schemas(self, toolsets: frozenset[str], overlay: Overlay = NO_OVERLAY) -> bytes:
        """The toolsets' schemas, encoded, of few tools and in brief if the session is lean."""
        known = toolsets & {MCP, *(tool.toolset for tool in self._tools.values())}
        if toolsets and not known:
            return b""
        return self._schemas(known, overlay.is_lean, overlay.servers)

    def _described(self, toolsets: frozenset[str], is_lean: bool, servers: SessionServers) -> bytes:
        tools = self._allowed(toolsets, servers, is_lean=is_lean)
        described = [(describe_briefly if is_lean else describe)(tool) for tool in tools]
        return encoded(described) if described else b""

    def normalize(self, turn: LiveTurn, message: ModelMessage) -> ModelMessage:
        """The message with names and arguments of its calls normalized."""
        names = list(self._allowed_to(turn))
        calls = tuple(
            replace(
                call,
                name=find_name(call.name, names),
                arguments_json=normalize(call.arguments_json),
            )
            for call in message.tool_calls
        )
        return message if calls == message.tool_calls else replace(message, tool_calls=calls)

    async def run(self, turn: LiveTurn) -> AsyncGenerator[Outcome]:
        tools = list(self._allowed_to(turn).values())
        batch = _Batch(turn, self._context, self._prepare, tools, self._redactor, self._asks)
        ready: list[_Prepared] = []
        last = next(reversed(turn.pending))
        for call in list(turn.pending.values()):
            prepared = self._prepare(turn, call)
            if isinstance(prepared, ToolReturned):
                yield (_advised(turn, prepared, last),)
            else:
                ready.append(prepared)
        async with Workers() as workers:
            for prepared in ready:
                workers.start(f"tool call {prepared.call.key}", batch.run(prepared))
            for _ in ready:
                while not isinstance(item := await batch.outcomes.get(), _End):
                    match item.value:
                        case (ToolReturned() as returned,):
                            yield (_advised(turn, returned, last),)
                        case outcome:
                            yield outcome
                    item.committed.set()
        if batch.unsaved is not None:
            raise batch.unsaved
        if batch.forbidden:
            yield _halted(turn, batch.forbidden)
        elif batch.waiting:
            yield tuple(batch.waiting)

    def _allowed(
        self, toolsets: frozenset[str], servers: SessionServers, *, is_lean: bool = False
    ) -> list[Tool[Any]]:
        every = (*self._tools.values(), *self._more(servers))
        on = [tool for tool in every if not toolsets or tool.toolset in toolsets]
        return [tool for tool in on if tool.name in LEAN] if is_lean else on

    def _allowed_to(self, turn: LiveTurn) -> dict[str, Tool[Any]]:
        overlay = turn.overlay
        tools = self._allowed(turn.toolsets, overlay.servers, is_lean=overlay.is_lean)
        return {tool.name: tool for tool in tools}

    def _prepare(self, turn: LiveTurn, call: PendingCall) -> "_Prepared | ToolReturned":
        name, allowed = call.call.name, self._allowed_to(turn)
        if (tool := allowed.get(name)) is None:
            known = ", ".join(allowed)
            return _error(call, f"There is no tool {name!r}. Available tools: {known}.")
        try:
            arguments = validated(tool.arguments, arguments_of(call.call.arguments_json))
        except (ValueError, RecursionError) as error:
            return _error(call, _malformed(error))
        if why_not := refused(turn, tool, arguments):
            return _error(call, why_not)
        if call.state is StepState.DISPATCHED and tool.effect(arguments) is Effect.UNSAFE:
            return ToolReturned(call, _UNCERTAIN, is_error=True, uncertain=True)
        return _Prepared(call, tool, arguments)


Prepare = Callable[[LiveTurn, PendingCall], _Prepared | ToolReturned]


class _End:
    """Marks the end of a call's output."""


class _Item(Struct, frozen=True):
    value: Outcome
    committed: asyncio.Event


class _Batch:
    def __init__(
        self,
        turn: LiveTurn,
        context: ContextFactory,
        prepare: Prepare,
        tools: Sequence[Tool[Any]],
        redactor: Redactor,
        asks: Asks | None,
    ) -> None:
        self._redactor = redactor
        self._help = None if asks is None else asks(turn, self._commit)
        self.outcomes: asyncio.Queue[_Item | _End] = asyncio.Queue()
        self.waiting: list[ApprovalNeeded] = []
        self.forbidden: list[str] = []
        """What a person would have to allow; the turn ends there."""
        self.unsaved: HermesError | None = None
        """Why a call did not finish; the call is made again when the turn resumes."""
        self._turn = turn
        self._context = context
        self._prepare = prepare
        self._tools = tools
        self._slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        turn_chars = LEAN_TURN_CHARS if turn.overlay.is_lean else TURN_CHARS
        self._room = ResultRoom(turn.result_chars_sent, turn_chars)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def run(self, prepared: _Prepared) -> None:
        """Run one call after those that it conflicts with."""
        try:
            async with self._slots, self._alone(prepared):
                await self._run(prepared)
        finally:
            self.outcomes.put_nowait(_End())

    @asynccontextmanager
    async def _alone(self, prepared: _Prepared) -> AsyncGenerator[None]:
        """Waits until no other call is changing the same things."""
        async with AsyncExitStack() as held:
            for name in sorted(prepared.tool.writes(prepared.arguments)):
                await held.enter_async_context(self._locks[name])
            yield

    async def _run(self, prepared: _Prepared) -> None:
        call, tool, arguments = prepared.call, prepared.tool, prepared.arguments
        context = self._context_of(call, self._progress(call))
        context = replace(context, inner=self._inner(call, context))
        if tool.effect(arguments) is Effect.UNSAFE:
            await self._commit(ToolDispatched(call))
        started = time.monotonic()
        try:
            result = await attempt(tool, arguments, context)
            seen = await _shown(result, context)
        except DecisionRequired as required:
            subject = self._redactor.redact(required.subject)
            if context.unattended is Unattended.HALT:
                self.forbidden.append(f"{(required.call or call).call.name}: {subject}")
            else:
                waits = required.call or call
                needed = ApprovalNeeded(waits, subject, required.binding, required.choices)
                self.waiting.append(needed)
            return
        except CommandUncertain:
            await self._commit(ToolReturned(call, _UNCERTAIN, is_error=True, uncertain=True))
            return
        except (DatabaseUnavailable, DatabaseDamaged) as error:
            self.unsaved = error
            return
        duration_ms = round((time.monotonic() - started) * 1000)
        place = context.place()
        toolsets = self._turn.toolsets
        can_read = self._turn.kind != REVIEW and (not toolsets or bool(_READING & toolsets))
        files = context.files if can_read else None
        text = await self._room.fitted(result.text, call.key, files, result.beside)
        news = f"[{found}]" if (found := context.news()) else ""
        text = self._redactor.redact("\n".join(filter(None, (news, text, seen.text))))
        result = replace(result, text=text, notices=(*result.notices, *seen.notices))
        # Release waiting calls only after the result is stored.
        returned = _returned(call, result, place, duration_ms)
        await self._commit(replace(returned, parts=seen.parts))

    def _context_of(self, call: PendingCall, progress: Callable[[str], None]) -> ToolContext:
        context = self._context(self._turn, call, progress)
        if self._help is None:
            return context
        return replace(context, ask=self._help.ask, spend=self._help.spend)

    def _inner(self, outer: PendingCall, context: ToolContext) -> JournaledCalls:
        async def run(call: PendingCall) -> ToolResult:
            prepared = self._prepare(self._turn, call)
            if isinstance(prepared, ToolReturned):
                return ToolResult(prepared.text, is_error=True)
            inner = self._context_of(call, context.progress)
            async with self._alone(prepared):
                try:
                    result = await attempt(prepared.tool, prepared.arguments, inner)
                    return replace(result, text=self._redactor.redact(result.text))
                except CommandUncertain:
                    return ToolResult(_UNCERTAIN, is_error=True)

        return JournaledCalls(outer, context.state, run, self._tools, self._turn.decided)

    def _progress(self, call: PendingCall) -> Callable[[str], None]:
        def progress(text: str) -> None:
            self._put(ToolProgress(call.key, self._redactor.redact(text)))

        return progress

    def _put(self, value: Outcome) -> asyncio.Event:
        committed = asyncio.Event()
        self.outcomes.put_nowait(_Item(value, committed))
        return committed

    async def _commit(self, fact: Fact) -> None:
        await self._put((fact,)).wait()


async def _shown(result: ToolResult, context: ToolContext) -> ShownPictures:
    return await context.show(result.pictures, context.ask) if result.pictures else ShownPictures()


async def attempt(tool: Tool[Any], arguments: ToolArguments, context: ToolContext) -> ToolResult:
    """Run a call and turn its errors into results; DecisionRequired is raised."""
    with tool_span(tool.name, context.key, arguments) as note:
        note(result := await _attempt(tool, arguments, context))
        return result


async def _attempt(tool: Tool[Any], arguments: ToolArguments, context: ToolContext) -> ToolResult:
    try:
        return await tool.run(arguments, context)
    except (CommandUncertain, DatabaseUnavailable, DatabaseDamaged):
        raise
    except DecisionRequired:
        if context.unattended is Unattended.DENY:
            return ToolResult(NOBODY_TO_ASK, is_error=True)
        raise
    except (ToolFailed, RetryWithHint, SandboxUnavailable, PathRefused) as error:
        return ToolResult(str(error), is_error=True)
    except Exception:  # noqa: BLE001 - a crashing tool is a result, not the end of the turn
        _log.exception("tool crashed", extra={"tool": tool.name, "call": context.key})
        return ToolResult(f"The tool {tool.name} crashed. The log has the details.", is_error=True)


def _returned(
    call: PendingCall, result: ToolResult, place: SandboxInfo, duration_ms: int
) -> ToolReturned:
    return ToolReturned(
        call=call,
        text="\n".join(filter(None, (result.text, place.warning))),
        is_error=result.is_error,
        exit_code=result.exit_code,
        place=place,
        duration_ms=duration_ms,
        notices=result.notices,
    )


def _advised(turn: LiveTurn, returned: ToolReturned, last: str) -> ToolReturned:
    call, failures = returned.call, 0
    if returned.is_error:
        failures = advice.failures_in_row(turn.messages, call.call, returned.text)
    left = advice.of_calls_left(turn) if call.key == last else ""
    text = "\n".join(filter(None, (returned.text, advice.of_failures(failures), left)))
    return replace(returned, text=text, failures_in_row=failures)


def _halted(turn: LiveTurn, forbidden: Sequence[str]) -> tuple[Fact, ...]:
    """The facts that end an unattended turn which would need a person's approval."""
    calls = [ToolReturned(call, HALTED, is_error=True) for call in turn.pending.values()]
    message = (
        "The work ended because a call needs a person's approval: "
        f"{'; '.join(forbidden)}. Approve it in a conversation, or change approvals.unattended."
    )
    return *calls, TurnFinished(
        events.Outcome.FAILED, message=message, reason=Reason.APPROVAL_REQUIRED
    )


def _error(call: PendingCall, text: str) -> ToolReturned:
    # The text repeats names that the model made up, of any length and number.
    return ToolReturned(call, events.preview(text), is_error=True)


def _malformed(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"The arguments are invalid, so the tool was not run. {explain(error)}"
    return (
        f"The arguments are invalid: not a JSON object ({error}), so the tool was not run. If your "
        "message was cut off, make several smaller calls."
    )
