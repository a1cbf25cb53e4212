"""The way of an event: authorized? a command? a button? else a turn, whose answer is followed."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.accounts import INBOX, OUTBOX, Held
from gateway_service.answers import BUTTONS, Answers
from gateway_service.authorization import Access
from gateway_service.clients.agent import GivenAnswer
from gateway_service.commands.base import Answer, Chat, Tools
from gateway_service.commands.decisions import may_decide
from gateway_service.commands.obey import AsTurn, obey, parse
from gateway_service.errors import AgentRefused, PlatformError
from gateway_service.events import Decision
from gateway_service.messages import (
    QUEUE,
    BusyMode,
    ButtonPress,
    Content,
    MessageEvent,
    Source,
    TurnOrder,
    turn_command,
)
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox import PLACEHOLDER
from gateway_service.platforms.base import Platform
from gateway_service.resets import Resets, note_message
from gateway_service.storage import busy, chats, inbox, outbox
from gateway_service.storage.inbox import Waiting
from gateway_service.storage.outbox import Address, Delivery, Kind
from gateway_service.turns import Turns
from services.errors import DatabaseUnavailable, HermesError
from services.ids import new_id, new_session_id
from services.lifecycle import Workers

_log = logging.getLogger(__name__)

POLL_S = 5.0
RETRY_S = 2.0
TEXT_ONLY = "So far I can only read text."

NOT_YOURS = "The owner of this Hermes does not let you decide that."

APPROVAL_ID = "apr_"
"""How the ids of approvals begin; those of their questions in a chat are the same."""

_YES_OR_NO = {
    **dict.fromkeys(("y", "yes", "ok", "okay"), Decision.ONCE),
    **dict.fromkeys(("n", "no"), Decision.DENY),
}
"""What decides when it answers a question in the chat; never for longer than once."""
_WORDS = {decision.value: decision for decision, _ in BUTTONS}


class Router:
    """Works on an account's inbox: chats side by side, the events of a chat one after another."""

    def __init__(
        self,
        held: Held,
        platform: Platform,
        access: Access,
        answers: Answers,
        turns: Turns,
        tools: Tools,
        metrics: GatewayMetrics,
    ) -> None:
        self._held = held
        self._platform = platform
        self._access = access
        self._answers = answers
        self._turns, self._tools, self._metrics = turns, tools, metrics
        self._resets = Resets(held, tools.agent, tools.resets.of(held.platform), tools.clock)
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
        held, open_turns = self._held, defaultdict[str, list[TurnOrder]](list)
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

    def _start(self, key: str, orders: Sequence[TurnOrder]) -> None:
        self._busy.add(key)
        self._workers.start(f"inbox of {key}", self._serve(key, orders))

    async def _serve(self, key: str, orders: Sequence[TurnOrder]) -> None:
        """Begin the turns that are open, then take what has come in, in order.

        After an error that is none of ours the chat stays busy until the next start: the same
        event would only fail again.
        """
        held = self._held
        try:
            for order in orders:
                await self._begin(order)
            while (
                waiting := await held.database.read(
                    lambda conn: inbox.next_of_lane(conn, held.platform, held.account_id, key)
                )
            ) is not None:
                await self._take(key, waiting)
        except HermesError as error:
            _log.warning("the inbox of a chat waits: %s", error)
            await self._tools.clock.sleep(RETRY_S)
        self._busy.discard(key)
        self._hint.give()  # what came in between found the chat busy

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
                elif (approval_id := await _decided(self._held, event)) is not None:
                    await self._decide(key, waiting.sequence, event, approval_id)
                elif await self._is_answer(key, event):
                    now = self._tools.clock.now()
                    sequence = waiting.sequence
                    await self._held.write(lambda conn: inbox.close_event(conn, sequence, now))
                elif text.strip() or event.quotes:
                    await self._begin(await self._accept(key, waiting, event))
                else:
                    await self._reply(key, waiting.sequence, event, Answer(TEXT_ONLY))

    async def _decide(self, key: str, sequence: int, event: MessageEvent, approval_id: str) -> None:
        """Take a decision; its question shows it, and an answer says why it came to nothing."""
        decision, held = _YES_OR_NO[_said(event)], self._held
        if not may_decide(self._access, event.source, decision):
            await self._reply(key, sequence, event, Answer(NOT_YOURS))
            return
        try:
            user = event.source.user
            await self._tools.agent.decide(approval_id, held.profile, decision, user)
        except AgentRefused as error:
            await self._reply(key, sequence, event, Answer(error.message))
        else:
            now = self._tools.clock.now()
            await held.write(lambda conn: inbox.close_event(conn, sequence, now))

    async def _is_answer(self, key: str, event: MessageEvent) -> bool:
        """Whether a message is the answer that a turn of the chat waits for; then it has it now."""
        held = self._held

        def waiting_session(conn: Connection) -> str:
            session_id = chats.session_of(conn, held.profile, key)
            is_busy = session_id and inbox.live_turns(conn, held.profile, session_id)
            return session_id or "" if is_busy else ""

        session_id = await held.database.read(waiting_session)
        if not session_id or not event.text.strip():
            return False
        given = GivenAnswer(
            held.profile,
            event.source.user,
            event.text,
            session_id,
            answer_id=f"{held.platform}:{event.event_id}",
        )
        return await self._answered(given)

    async def _answered(self, given: GivenAnswer) -> bool:
        try:
            return await self._tools.agent.answer(given)
        except AgentRefused:
            return False  # the question ended at the last moment

    async def _accept(
        self, key: str, waiting: Waiting, event: MessageEvent, skill: str = ""
    ) -> TurnOrder:
        """Give a message its turn, and its answer a place in the chat."""
        command, _ = turn_command(event.text) or (QUEUE, "")
        if command == QUEUE:  # what is said of the last turn is not for a new session
            await self._resets.before(key)
        held, now = self._held, self._tools.clock.now()
        profile = held.profile
        turn_id, fresh_id = new_id("trn"), new_session_id(now.astimezone())

        def write(conn: Connection) -> TurnOrder:
            session_id = chats.session_of(conn, profile, key)
            if session_id is None:
                session_id = fresh_id
                chats.put(conn, profile, key, session_id, now)
            mode = busy.chosen(conn, profile, key) or self._tools.busy.of(held.platform)
            order = _order(held, event, turn_id, session_id, skill, mode)
            inbox.accept(conn, waiting.sequence, order)
            address = self._answers.address(order)
            note_message(conn, key, order, address, now)
            placeholder = Delivery(turn_id, address, [PLACEHOLDER], Kind.ANSWER)
            outbox.add(conn, placeholder, now)
            return order

        order = await held.write(write, notify=OUTBOX)
        lag_s = (now - waiting.received_at).total_seconds()
        self._metrics.inbox_lag.labels(held.platform).observe(lag_s)
        return order

    async def _begin(self, order: TurnOrder) -> None:
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
        outcome = await obey(self._tools, chat, name, arguments)
        if isinstance(outcome, AsTurn):
            await self._begin(await self._accept(key, waiting, event, outcome.skill))
        else:
            await self._reply(key, waiting.sequence, event, outcome)

    async def _reply(self, key: str, sequence: int, event: MessageEvent, answer: Answer) -> None:
        """Answer an event that has no turn, once."""
        held, now = self._held, self._tools.clock.now()
        address = _address(self._held, event.source)
        reply = Delivery(f"{held.platform}:{event.event_id}", address, [Content(answer.text)])

        def write(conn: Connection) -> None:
            if answer.session_id:
                chats.put(conn, held.profile, key, answer.session_id, now)
            outbox.add(conn, reply, now)
            inbox.close_event(conn, sequence, now)

        await held.write(write, notify=OUTBOX)

    async def _press(self, sequence: int, press: ButtonPress) -> None:
        """Take a decision; its question changes when the turn hears of it."""
        said, now = await self._pressed(press), self._tools.clock.now()
        await self._held.write(lambda conn: inbox.close_event(conn, sequence, now))
        with suppress(PlatformError):
            await self._platform.acknowledge(press, said)

    async def _pressed(self, press: ButtonPress) -> str:
        """What came of a press; a program can press what this chat was never asked."""
        question_id, _, word = press.data.rpartition(":")
        address, profile, user = (
            _address(self._held, press.source),
            self._held.profile,
            press.source.user,
        )
        is_asked = partial(outbox.is_in_chat, address=address, delivery_id=question_id)
        is_known = word in _WORDS or word.isdecimal()
        if not is_known or not await self._held.database.read(is_asked):
            return "This button is not known any more."
        if word.isdecimal():
            given = GivenAnswer(profile, user, word, clarification_id=question_id)
            return "Done." if await self._answered(given) else "The question is over."
        if not may_decide(self._access, press.source, _WORDS[word]):
            return NOT_YOURS
        try:
            await self._tools.agent.decide(question_id, profile, _WORDS[word], user)
        except AgentRefused as error:
            return error.message
        return "Done."


def _order(
    held: Held, event: MessageEvent, turn_id: str, session_id: str, skill: str, mode: BusyMode
) -> TurnOrder:
    order = TurnOrder(turn_id, held.profile, session_id, event.source, event.text)
    return replace(order, quotes=event.quotes, skill=skill, busy_mode=mode)


def _said(event: MessageEvent) -> str:
    return event.text.strip().rstrip(".!").lower()


def _address(held: Held, source: Source) -> Address:
    account = (held.profile, held.platform, held.account_id)
    return Address(*account, source.chat_id, source.thread_id)


async def _decided(held: Held, event: MessageEvent) -> str | None:
    """The approval that a message answers with a yes or a no, if it answers one."""
    if not event.replies_to or _said(event) not in _YES_OR_NO:
        return None
    address = _address(held, event.source)
    delivery_id = await held.database.read(
        lambda conn: outbox.delivery_of(conn, address, event.replies_to)
    )
    return delivery_id if (delivery_id or "").startswith(APPROVAL_ID) else None
