"""The way of an event: authorized? a command? a button? else a turn, whose answer is followed."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.access import Access
from gateway_service.chats.resets import RESUME, Resets, note_message
from gateway_service.commands.base import Answer, Chat, CommandContext, may_say
from gateway_service.commands.registry import AsTurn, dispatch, parse
from gateway_service.errors import AgentRefused, PlatformError
from gateway_service.messages import QUEUE, ButtonPress, MessageEvent, TurnRequest, turn_command
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.worker import PLACEHOLDER
from gateway_service.platforms.base import Platform
from gateway_service.storage import chats, inbox, outbox
from gateway_service.storage.accounts import INBOX, OUTBOX, AccountLease
from gateway_service.storage.inbox import Waiting
from gateway_service.storage.outbox import Delivery, Kind
from gateway_service.turns.presenter import TurnPresenter
from gateway_service.turns.prompt_replies import PromptReplies
from gateway_service.turns.turns import Turns
from services.errors import DatabaseUnavailable, HermesError
from services.ids import new_id, new_session_id
from services.lifecycle import Workers

_log = logging.getLogger(__name__)

POLL_S = 5.0
RETRY_S = 2.0
TEXT_ONLY = "So far I can only read text."


class Router:
    """Works on an account's inbox: chats side by side, the events of a chat one after another."""

    def __init__(
        self,
        held: AccountLease,
        platform: Platform,
        access: Access,
        answers: TurnPresenter,
        turns: Turns,
        tools: CommandContext,
        metrics: GatewayMetrics,
    ) -> None:
        self._held = held
        self._platform = platform
        self._access = access
        self._answers = answers
        self._turns, self._tools, self._metrics = turns, tools, metrics
        self._questions = PromptReplies(held, access, tools)
        config = tools.config
        policy = config.session_reset.of(held.platform, config.zone)
        self._resets = Resets(held, tools.agent, policy, tools.clock)
        self._workers = Workers()
        self._hint = held.database.listen(INBOX)
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Take up what is open, then work on what comes in, until cancelled."""
        async with self._workers:
            self._workers.start("resets", self._resets.run())
            resumed = False
            while True:
                try:
                    if not resumed:
                        await self._resume()
                        resumed = True
                    await self._look()
                except DatabaseUnavailable as error:
                    _log.warning("the inbox waits for the database: %s", error)
                    await self._tools.clock.sleep(RETRY_S)
                else:
                    await self._hint.wait(POLL_S)

    async def _resume(self) -> None:
        held, open_turns = self._held, defaultdict[str, list[TurnRequest]](list)
        found = await held.database.read(
            lambda conn: inbox.accepted(conn, held.platform, held.account_id)
        )
        for key, order in found:
            open_turns[key].append(order)
        for key, orders in open_turns.items():
            self._start(key, orders)

    async def _look(self) -> None:
        held = self._held
        lanes = await held.database.read(
            lambda conn: inbox.lanes(conn, held.platform, held.account_id)
        )
        for key in lanes:
            if key not in self._busy:
                self._start(key, ())

    def _start(self, key: str, orders: Sequence[TurnRequest]) -> None:
        self._busy.add(key)
        self._workers.start(f"inbox of {key}", self._serve(key, orders))

    async def _serve(self, key: str, orders: Sequence[TurnRequest]) -> None:
        """Begin the turns that are open, then take what has come in, in order."""
        waiting = None
        try:
            for order in orders:
                await self._begin(order)
            while (waiting := await self._next(key)) is not None:
                await self._take(key, waiting)
        except HermesError as error:
            _log.warning("the inbox of a chat waits: %s", error)
            await self._tools.clock.sleep(RETRY_S)
        except Exception:
            # A mistake of ours. The same event would only fail again: the chat goes on without it.
            # One that has its turn by now is taken up again at the next start.
            # Wait first: if closing fails too, the chat must not be served again at once.
            await self._tools.clock.sleep(RETRY_S)
            if waiting is not None and waiting == await self._next(key):
                await self._close(waiting.sequence)
            raise
        finally:
            self._busy.discard(key)
            self._hint.give()  # what came in between found the chat busy

    async def _next(self, key: str) -> Waiting | None:
        held = self._held
        return await held.database.read(
            lambda conn: inbox.next_of_lane(conn, held.platform, held.account_id, key)
        )

    async def _take(self, key: str, waiting: Waiting) -> None:
        event = waiting.event
        if not self._access.allows(event.source):
            now = self._tools.clock.now()
            await self._held.write(lambda conn: inbox.ignore(conn, waiting.sequence, now))
            return
        match event:
            case ButtonPress():
                await self._press(waiting.sequence, event)
            case MessageEvent(text=text):
                if (command := parse(text)) is not None:
                    await self._obey(key, waiting, event, *command)
                elif (approval_id := await self._questions.approval_of(event)) is not None:
                    why_not = await self._questions.decide(event, approval_id)
                    await self._answered(key, waiting.sequence, event, why_not)
                elif await self._questions.is_answer(key, event):
                    await self._answered(key, waiting.sequence, event)
                elif text.strip() or event.quotes:
                    await self._begin(await self._accept(key, waiting, event))
                else:
                    await self._reply(key, waiting.sequence, event, Answer(TEXT_ONLY))

    async def _answered(
        self, key: str, sequence: int, event: MessageEvent, why_not: str = ""
    ) -> None:
        """A question has its answer, which shows there, or it came to nothing, which is said."""
        if why_not:
            await self._reply(key, sequence, event, Answer(why_not))
        else:
            await self._close(sequence)

    async def _close(self, sequence: int) -> None:
        now = self._tools.clock.now()
        await self._held.write(lambda conn: inbox.close_event(conn, sequence, now))

    async def _accept(
        self, key: str, waiting: Waiting, event: MessageEvent, skill: str = ""
    ) -> TurnRequest:
        """Give a message its turn, and its answer a place in the chat."""
        command, _ = turn_command(event.text) or (QUEUE, "")
        if command == QUEUE:  # what is said of the last turn is not for a new session
            await self._resets.before(key)
        held, now = self._held, self._tools.clock.now()
        profile, busy = held.profile, self._tools.config.busy
        turn_id, fresh_id = new_id("trn"), new_session_id(now.astimezone())

        def write(conn: Connection) -> TurnRequest:
            session_id = chats.session_of(conn, profile, key)
            if session_id is None:
                session_id = fresh_id
                chats.put(conn, profile, key, session_id, now)
            source = event.source
            order = TurnRequest(turn_id, profile, session_id, source, event.text)
            order = replace(
                order,
                quotes=event.quotes,
                skill=skill,
                busy_mode=chats.busy_mode(conn, profile, key) or busy.of(held.platform),
                denied=self._questions.denied(source),
                traceparent=event.traceparent,
            )
            inbox.accept(conn, waiting.sequence, order)
            address = held.address(source)
            chat = Chat(profile, session_id, source, waiting.event.event_id, self._access)
            can_resume = may_say(self._tools.commands, chat, RESUME)
            note_message(conn, key, order, address, now, can_resume=can_resume)
            placeholder = Delivery(
                turn_id, address, [PLACEHOLDER], Kind.ANSWER, traceparent=order.traceparent
            )
            outbox.add(conn, placeholder, now)
            return order

        order = await held.write(write, notify=OUTBOX)
        lag_s = (now - waiting.received_at).total_seconds()
        self._metrics.inbox_lag.labels(held.platform).observe(lag_s)
        return order

    async def _begin(self, order: TurnRequest) -> None:
        """Start a turn, in its chat's order, and follow it beside the chat."""
        refusal = ""
        try:
            await self._turns.start(order)
        except AgentRefused as error:
            refusal = error.message
        self._workers.start(f"turn {order.turn_id}", self._answers.answer(order, refusal))

    async def _obey(
        self, key: str, waiting: Waiting, event: MessageEvent, name: str, arguments: str
    ) -> None:
        profile = self._held.profile
        session_id = await self._held.database.read(
            lambda conn: chats.session_of(conn, profile, key)
        )
        # A chat without a session has none that could be busy.
        session_id = session_id or new_session_id(self._tools.clock.now().astimezone())
        event_id = f"{event.source.platform}:{event.event_id}"
        chat = Chat(profile, session_id, event.source, event_id, self._access, key)
        outcome = await dispatch(self._tools, chat, name, arguments)
        if isinstance(outcome, AsTurn):
            await self._begin(await self._accept(key, waiting, event, outcome.skill))
        else:
            await self._reply(key, waiting.sequence, event, outcome)

    async def _reply(self, key: str, sequence: int, event: MessageEvent, answer: Answer) -> None:
        """Answer an event that has no turn, once."""
        held, now = self._held, self._tools.clock.now()
        address = held.address(event.source)
        reply = Delivery(
            f"{held.platform}:{event.event_id}",
            address,
            [self._answers.content(answer.text)],
            traceparent=event.traceparent,
        )

        def write(conn: Connection) -> None:
            if answer.session_id:
                chats.put(conn, held.profile, key, answer.session_id, now)
            outbox.add(conn, reply, now)
            inbox.close_event(conn, sequence, now)

        await held.write(write, notify=OUTBOX)

    async def _press(self, sequence: int, press: ButtonPress) -> None:
        """Take a decision; its question changes when the turn hears of it."""
        said = await self._questions.pressed(press)
        await self._close(sequence)
        with suppress(PlatformError):
            await self._platform.acknowledge(press, said)
