"""Delegates tasks to subagents: turns of their own, in sessions and sandboxes of their own.

The id of a subagent's turn derives from the call. If the call is repeated, after a crash or on
another replica, it finds the same turn and waits for its end.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from msgspec.structs import replace

from agent_service.clients.commands import SessionCommands
from agent_service.records.events import Outcome, TurnFinished
from agent_service.records.requests import (
    PARENT_SESSION,
    PARENT_TURN,
    SUBAGENT,
    BusyMode,
    SessionOptions,
    TurnRequest,
)
from agent_service.records.sandbox import CommandStatus, CommandUnknown
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import bindings, sessions
from agent_service.storage.sessions import TAINT
from agent_service.tools.delegate_task import NAME as DELEGATE_TASK
from agent_service.tools.inner import inner_key
from agent_service.tools.shell.execute_code import NAME as EXECUTE_CODE
from agent_service.tools.subagents import NoSubagents, Report, Task
from agent_service.turns.service import Turns
from services.database import Database
from services.errors import Draining, NotFound
from services.lifecycle import all_of

MAX_MODEL_CALLS = 50
MAX_TASKS = 16

BLOCKED = frozenset({"delegation", "clarify", "memory", "honcho", "messaging", "cron", "rl"})
"""Toolsets that subagents never get: they do not delegate, ask or speak for anybody."""

_INSTRUCTIONS = """\
# Your task
Another agent has handed you one task, and sees nothing of your work but your last message. Nobody
answers questions: decide what is left open yourself, and say how. Your files are your own; what is
of use to the other has to be in that message. End with it: what you did, what you found, what is
left, and what you are not sure of."""


class Delegation:
    """Starts subagents on this replica."""

    def __init__(
        self, turns: Callable[[], Turns], toolsets: Collection[str], most: int, database: Database
    ) -> None:
        """Turns run tools and this serves a tool, so `turns` is looked up lazily."""
        self.most = most
        self._database = database
        self._turns = turns
        self._toolsets = frozenset(toolsets)

    def allowed(self, turn: LiveTurn, asked: Sequence[str]) -> tuple[str, ...]:
        """Return a subagent's toolsets: the requested ones that its caller has and may give."""
        own = (turn.toolsets or self._toolsets) & self._toolsets
        wanted = own & frozenset(asked) if asked else own
        found = tuple(sorted(wanted - BLOCKED))
        if not found:
            has = ", ".join(sorted(own - BLOCKED)) or "none"
            raise NoSubagents(f"A subagent may have none of these toolsets; it may have: {has}.")
        return found

    async def template_of(self, session_id: str) -> str:
        """Return the sandbox template of a session and its subagents."""
        wish = await self._database.read(lambda conn: bindings.wish(conn, session_id))
        return wish.template

    async def start(self, request: TurnRequest) -> None:
        """Start a subagent's turn, or find it."""
        try:
            await self._turns().start(request)
        except Draining:
            # The caller's turn is being released too; its next owner delegates the task.
            await asyncio.Event().wait()

    async def report(self, key: str, number: int, profile: str) -> Report:
        finished = await self._turns().watching.wait_for_end(turn_id_of(key, number), profile)
        session_id = session_id_of(key, number)
        found: Sequence[str] | None = await self._database.read(
            lambda conn: sessions.get_state(conn, session_id, TAINT)
        )
        return _report(finished, tuple(found or ()))

    async def cancel(self, key: str, profile: str) -> None:
        for number in range(MAX_TASKS):
            try:
                await self._turns().interrupt(turn_id_of(key, number), "", profile)
            except NotFound:
                return


class CallSubagents:
    """The subagents of one tool call."""

    def __init__(self, delegation: Delegation, turn: LiveTurn, key: str) -> None:
        self._delegation = delegation
        self._turn = turn
        self._key = key

    @property
    def most(self) -> int:
        return self._delegation.most

    async def work(
        self,
        tasks: Sequence[Task],
        toolsets: Sequence[str],
        untrusted: Sequence[str],
        ended: Callable[[int, Report], None],
    ) -> list[Report]:
        allowed = self._delegation.allowed(self._turn, toolsets)
        template = await self._delegation.template_of(self._turn.session_id)
        # One after another, so that a cancellation finds all that were started.
        for number, task in enumerate(tasks):
            request = self._request(number, task, allowed, template)
            await self._delegation.start(replace(request, untrusted=tuple(untrusted)))
        return await all_of(self._report(number, ended) for number in range(len(tasks)))

    async def _report(self, number: int, ended: Callable[[int, Report], None]) -> Report:
        report = await self._delegation.report(self._key, number, self._turn.profile)
        ended(number, report)
        return report

    def _request(
        self, number: int, task: Task, toolsets: tuple[str, ...], template: str
    ) -> TurnRequest:
        turn = self._turn
        parent = {PARENT_SESSION: turn.session_id, PARENT_TURN: turn.id}
        context = f"\n\n# What you need to know\n{task.context}" if task.context.strip() else ""
        return TurnRequest(
            turn_id=turn_id_of(self._key, number),
            profile=turn.profile,
            session_id=session_id_of(self._key, number),
            text=f"{task.goal}{context}",
            origin={"platform": SUBAGENT, **parent},
            kind=SUBAGENT,
            busy_mode=BusyMode.QUEUE,
            # Not the fallback model: that may belong to another endpoint.
            options=replace(turn.options, toolsets=toolsets, max_model_calls=MAX_MODEL_CALLS),
            new_session=SessionOptions(system_message=_INSTRUCTIONS, sandbox_template=template),
        )


class CallKiller:
    """Ends the commands and tasks that an interrupted turn has started."""

    def __init__(self, commands: SessionCommands, delegation: Delegation, turn: LiveTurn) -> None:
        self._commands = commands
        self._delegation = delegation
        self._turn = turn

    async def kill(self, key: str) -> CommandStatus:
        """End what a call has started; CommandUnknown if that is no command."""
        call = self._turn.pending.get(key)
        if call is not None and call.call.name == DELEGATE_TASK:
            await self._delegation.cancel(key, self._turn.profile)
            raise CommandUnknown(key)
        status = await self._commands.kill(key)
        if call is not None and call.call.name == EXECUTE_CODE:
            await self._kill_inner(key)
        return status

    async def _kill_inner(self, key: str) -> None:
        """End the commands that a program has started, for which nobody waits any more."""
        for found in await self._commands.list():
            if found.key.startswith(inner_key(key, "")) and found.exit is None:
                with suppress(CommandUnknown):
                    await self._commands.kill(found.key)


def turn_id_of(key: str, number: int) -> str:
    """Return the id of the turn for a call's task."""
    return f"trn_{_digest(key, number)}"


def session_id_of(key: str, number: int) -> str:
    """Return the id of the session for a call's task."""
    return f"sub_{_digest(key, number)}"


def _digest(key: str, number: int) -> str:
    return hashlib.sha256(f"{key}/{number}".encode()).hexdigest()[:26]


def _report(finished: TurnFinished, untrusted: tuple[str, ...]) -> Report:
    outcome = finished.outcome.value
    if finished.outcome is Outcome.COMPLETED:
        return Report(outcome, finished.text, untrusted)
    return Report(outcome, "\n".join(filter(None, (finished.message, finished.text))), untrusted)
