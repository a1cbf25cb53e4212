"""Starts turns of stored messages, with retries, and follows them to their end."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient
from gateway_service.errors import AgentRefused
from gateway_service.messages import API, CLI, TurnRequest
from gateway_service.storage import inbox as storage
from gateway_service.turns.inbox import Inbox
from gateway_service.turns.presenter import render_answer
from services.clock import Clock
from services.database import Database
from services.database.retries import until_answered
from services.errors import Draining, HermesError, Reason, Unavailable
from services.lifecycle import Workers
from services.telemetry.logs import bind
from services.telemetry.tracing import span

_log = logging.getLogger(__name__)

Write: TypeAlias = Callable[[Connection], None]


class AcceptedTurn(Struct, frozen=True):
    """A client's stored message."""

    turn: TurnRequest
    """The message's turn; the earlier one if the message was sent before."""
    is_open: bool
    refusal: str = ""
    """Why the agent refused the turn; empty if it did not."""
    reason: Reason | None = None
    """The reason of the refusal, for programs."""
    remark: str = ""
    """What the sender is told while the turn waits; empty if it does not."""


class TurnEvents(Struct, frozen=True):
    """Follows turns for hooks, whether or not their clients stay."""

    agent: AgentClient
    hooks: Hooks
    workers: Workers

    def follow(self, turn: TurnRequest, session_key: str) -> None:
        """Tell hooks of a turn that has just begun; `session_key` is that of a new session."""
        if turn.source.platform != API or not self.hooks.are_used:
            return
        if session_key:
            self.hooks.notify_chat(
                "session:start", turn.source, turn.session_id, session_key=session_key
            )
        with suppress(Draining):
            self.workers.start(f"hooks of {turn.turn_id}", self._follow(turn))

    async def _follow(self, turn: TurnRequest) -> None:
        tools = list[str]()
        self.hooks.notify_turn("agent:start", turn)
        watching = self.agent.watch(turn.turn_id, turn.profile, max_deltas_per_second=1)
        try:
            async with aclosing(watching) as batches:
                async for event in (event async for batch in batches for event in batch):
                    match event.WhichOneof("kind"):
                        case "tool_started":
                            tools.append(event.tool_started.name)
                        case "text_finished":
                            step = event.text_finished.step
                            self.hooks.notify_turn(
                                "agent:step", turn, iteration=step, tool_names=[*tools]
                            )
                            tools.clear()
                        case "turn_finished":
                            answer = render_answer(event.turn_finished)
                            self.hooks.notify_turn("agent:end", turn, response=answer)
                        case _:
                            pass
        except HermesError as error:
            _log.warning("hooks miss the end of turn %s: %s", turn.turn_id, error)


class TurnStarter(Struct, frozen=True):
    """Starts turns, and closes the messages that they answer."""

    _inbox: Inbox
    _database: Database
    _agent: AgentClient
    _clock: Clock
    _workers: Workers
    _events: TurnEvents

    async def begin(
        self,
        turn: TurnRequest,
        event_id: str,
        session_key: str = "",
        on_disconnect: Callable[[TurnRequest], None] | None = None,
    ) -> AcceptedTurn:
        """Store a client's message and start its turn, even if the client disconnects meanwhile.

        With a `session_key`, the turn begins that conversation's session. `on_disconnect` is called
        with the turn of a client that has disconnected; without it, the turn goes on.
        """
        beginning = self._workers.start(
            f"message {event_id}", self._begin(turn, event_id, session_key)
        )
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(partial(self._notify, on_disconnect))
            raise

    async def start(self, turn: TurnRequest) -> str:
        """Start a turn, retrying without limit; AgentRefused if the agent refuses it.

        Return what the sender is told if the turn waits.
        """
        about = {"messaging.system": turn.source.platform, "hermes.turn.id": turn.turn_id}
        with (
            bind(turn_id=turn.turn_id, session_id=turn.session_id),
            span("message", about, parent=turn.traceparent),
        ):
            return turn.remark if await self._start(turn) else ""

    async def _start(self, turn: TurnRequest) -> bool:
        try:
            start = partial(self._agent.start, turn)
            waits = await until_answered(self._clock, "a message", start)
        except AgentRefused as error:
            # The id is ours, so this turn was started before, perhaps with other settings.
            if error.reason is not Reason.ALREADY_EXISTS:
                raise
            return False
        _log.info("a message of %s has its turn", turn.source.platform)
        return waits

    async def close(self, turn_id: str, also: Write | None = None) -> None:
        """Note that a turn's message was answered, once the database is available.

        `also` is written in the same transaction.
        """
        now = self._clock.now()

        def close(conn: Connection) -> None:
            storage.close(conn, turn_id, now)
            if also is not None:
                also(conn)

        closing = partial(self._database.write, close)
        await until_answered(self._clock, f"the message of {turn_id}", closing)

    def close_later(self, turn_id: str, also: Write | None = None) -> asyncio.Task[None] | None:
        """Close the message of a turn that has ended, even if the client has disconnected.

        Return the task; None while shutting down.
        """
        try:
            return self._workers.start(f"closing of {turn_id}", self.close(turn_id, also))
        except Draining:
            return None

    def settle(self, turn: TurnRequest) -> None:
        """Follow a turn whose client has disconnected to its end, now or after the next start."""
        with suppress(Draining):
            self._workers.start(f"turn {turn.turn_id}", self._settle(turn))

    async def resume(self) -> None:
        """Resume the turns of clients that an earlier process left open."""

        def find(conn: Connection) -> Sequence[TurnRequest]:
            rows = (storage.accepted(conn, platform, "") for platform in (CLI, API))
            return [turn for _, turn in chain.from_iterable(rows)]

        found = partial(self._database.read, find)
        for turn in await until_answered(self._clock, "what was left open", found):
            # One after another: a later message of a session interrupts an earlier one.
            with suppress(AgentRefused):
                await self.start(turn)
            self.settle(turn)

    async def _begin(self, turn: TurnRequest, event_id: str, session_key: str) -> AcceptedTurn:
        with span("receive", {"messaging.system": turn.source.platform}) as received:
            traced = replace(turn, traceparent=received.traceparent)
            known, is_open = await self._inbox.accept(traced, event_id)
        if is_open:
            try:
                remark = await self.start(known)
            except AgentRefused as error:
                return AcceptedTurn(known, is_open, error.message, error.reason)
            if known.turn_id == turn.turn_id:
                self._events.follow(known, session_key)
            return AcceptedTurn(known, is_open, remark=remark)
        return AcceptedTurn(known, is_open)

    def _notify(
        self,
        on_disconnect: Callable[[TurnRequest], None] | None,
        beginning: asyncio.Task[AcceptedTurn],
    ) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            begun = beginning.result()
            if begun.is_open:
                follow = self.settle if begun.refusal else on_disconnect or self.settle
                follow(begun.turn)

    async def _settle(self, turn: TurnRequest) -> None:
        with bind(turn_id=turn.turn_id, session_id=turn.session_id):
            try:
                await self.start(turn)
                await self._agent.wait_for_end(turn.turn_id, turn.profile)
            except AgentRefused as error:
                _log.warning("the turn could not be followed to its end: %s", error)
            except Unavailable as error:
                _log.warning("the turn is resumed at the next start: %s", error)
                return
            await self.close(turn.turn_id)
