"""Shows a turn in a chat: while it runs in a placeholder, at its end as the answer."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.accounts import OUTBOX, Held
from gateway_service.clients.agent import AgentClient
from gateway_service.errors import AgentRefused, PlatformError, RateLimited
from gateway_service.events import (
    Answered,
    Asked,
    Decided,
    Decision,
    Ended,
    Noted,
    Questioned,
    TextChanged,
    ToolBegan,
    TurnEvent,
)
from gateway_service.limits import Limiter
from gateway_service.messages import Button, Content, TurnOrder
from gateway_service.platforms.base import Destination, Platform
from gateway_service.render import first_part, split, units
from gateway_service.storage import inbox, outbox, resets
from gateway_service.storage.outbox import REPEAT_UNITS, Address, Delivery
from services.clock import Clock
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers
from services.logs import bind
from services.redact import Redactor

_log = logging.getLogger(__name__)

RETRY_S = 2.0
LAST_EDIT_S = 15.0
BUTTON_CHARS = 40
ANSWER_HINT = "Your next message is the answer."
SUBJECT_UNITS = 2000

BUTTONS = (
    (Decision.ONCE, "Once"),
    (Decision.SESSION, "This session"),
    (Decision.ALWAYS, "Always"),
    (Decision.DENY, "Deny"),
)
_DECIDED = {
    Decision.ONCE: "Allowed once",
    Decision.SESSION: "Allowed in this session",
    Decision.ALWAYS: "Allowed for always",
    Decision.DENY: "Denied",
    Decision.EXPIRED: "Nobody decided in time; denied",
}


class Draft(Struct):
    """What a turn has to show so far."""

    step: int = 0
    text: str = ""
    tool: str = ""
    questions: dict[str, Asked] = field(default_factory=dict[str, Asked])
    asking: dict[str, Questioned] = field(default_factory=dict[str, Questioned])
    notes: list[str] = field(default_factory=list[str])
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def shown(self) -> str:
        """The text, or what is done instead of writing it."""
        doing = f"▸ {self.tool} …" if self.tool else ""
        return "\n\n".join(filter(None, (self.text, doing)))

    def take(self, event: TextChanged) -> None:
        """Put in text where it belongs."""
        if event.step != self.step:
            self.step, self.text = event.step, ""
        self.text = self.text[: event.offset] + event.text
        self.tool = ""


class Answers:
    """Answers the messages of one account."""

    def __init__(
        self,
        held: Held,
        platform: Platform,
        limiter: Limiter,
        agent: AgentClient,
        clock: Clock,
        redactor: Redactor,
    ) -> None:
        self._held = held
        self._platform = platform
        self._limiter = limiter
        self._agent = agent
        self._clock = clock
        self._redactor = redactor

    def content(self, text: str, buttons: tuple[Button, ...] = ()) -> Content:
        """What a chat is shown, and the outbox keeps: no secrets."""
        return Content(self._redactor.redact(text), buttons)

    async def answer(self, order: TurnOrder, refusal: str = "") -> None:
        """Show a turn from wherever it is to its end, or why it could not be started."""
        with bind(turn_id=order.turn_id, session_id=order.session_id):
            while True:
                try:
                    ended = Ended("", refusal) if refusal else await self._follow(order)
                    await self._finish(order, ended)
                except DatabaseUnavailable as error:
                    _log.warning("an answer waits for the database: %s", error)
                    await self._clock.sleep(RETRY_S)
                else:
                    return

    async def _finish(self, order: TurnOrder, ended: Ended) -> None:
        """Put the answer into the outbox and close its message, both or neither."""
        limit = self._platform.traits.message_units - REPEAT_UNITS
        said = self._redactor.redact(_final(ended))
        first, *more = (Content(text) for text in split(said, limit))
        now = self._clock.now()

        def write(conn: Connection) -> None:
            if not outbox.show(conn, order.turn_id, first, now):
                outbox.add(conn, self._delivery(order, order.turn_id, first), now)
            rest = self._delivery(order, order.turn_id, *more)
            outbox.add(conn, replace(rest, first_part=2), now)
            inbox.close(conn, order.turn_id, now)
            resets.answered(conn, order.profile, order.session_id, now)

        await self._held.write(write, notify=OUTBOX)

    def address(self, order: TurnOrder) -> Address:
        """Where the answer goes."""
        source = order.source
        account = (order.profile, self._held.platform, self._held.account_id)
        return Address(*account, source.chat_id, source.thread_id)

    def _delivery(self, order: TurnOrder, delivery_id: str, *contents: Content) -> Delivery:
        address = self.address(order)
        return Delivery(delivery_id, address, contents, traceparent=order.traceparent)

    async def _follow(self, order: TurnOrder) -> Ended:
        """Show what happens until the turn ends."""
        draft = Draft()
        async with Workers() as workers:
            workers.start(f"draft of {order.turn_id}", self._show(order, draft))
            try:
                ended = await self._watch(order, draft)
            except AgentRefused as error:
                ended = Ended("", error.message)
            draft.over.set()
            # An edit that is on its way must not arrive after the answer.
            await workers.drain(LAST_EDIT_S)
        return ended

    async def _watch(self, order: TurnOrder, draft: Draft) -> Ended:
        async with aclosing(self._agent.follow(order.turn_id, order.profile)) as events:
            async for event in events:
                if isinstance(event, Ended):
                    return replace(event, notes=tuple(draft.notes))
                await self._take(order, draft, event)
        raise AssertionError("a turn that is followed ends")

    async def _take(self, order: TurnOrder, draft: Draft, event: TurnEvent) -> None:
        match event:
            case TextChanged():
                draft.take(event)
            case ToolBegan(name):
                draft.tool = name
            case Noted(text):
                draft.notes.append(text)
            case Asked(approval_id):
                draft.questions[approval_id] = event
                question = self._delivery(order, approval_id, self._question(event))
                now = self._clock.now()
                await self._held.write(lambda conn: outbox.add(conn, question, now), notify=OUTBOX)
            case Decided(approval_id):
                asked = draft.questions.pop(approval_id)
                decided, now = self.content(_decided(asked, event)), self._clock.now()
                await self._held.write(
                    lambda conn: outbox.show(conn, approval_id, decided, now), notify=OUTBOX
                )
            case Questioned(clarification_id):
                draft.asking[clarification_id] = event
                question = self._delivery(order, clarification_id, self._asking(event))
                now = self._clock.now()
                await self._held.write(lambda conn: outbox.add(conn, question, now), notify=OUTBOX)
            case Answered(clarification_id):
                questioned = draft.asking.pop(clarification_id)
                answered, now = self.content(_answered(questioned, event)), self._clock.now()
                await self._held.write(
                    lambda conn: outbox.show(conn, clarification_id, answered, now), notify=OUTBOX
                )
            case Ended():
                pass

    async def _show(self, order: TurnOrder, draft: Draft) -> None:
        """Edit the placeholder and show that we are typing; whatever fails is left out."""
        traits = self._platform.traits
        to = Destination(order.source.chat_id, order.source.thread_id)
        seen, typing_at = "", 0.0
        while not draft.over.is_set():
            now = self._clock.monotonic()
            if now >= typing_at and not draft.questions and not draft.asking:
                typing_at = now + traits.typing_interval_s
                await self._try(to, lambda: self._platform.typing(to))
            # What only the whole of it shows to be a secret was not found as it came.
            text = first_part(self._redactor.redact(draft.shown), traits.message_units)
            if text not in ("", seen) and await self._edit(order, to, Content(text)):
                seen = text
            with suppress(TimeoutError):
                async with asyncio.timeout(traits.edit_interval_s):
                    await draft.over.wait()

    async def _edit(self, order: TurnOrder, to: Destination, content: Content) -> bool:
        try:
            message_id = await self._held.database.read(
                lambda conn: outbox.message_id(conn, order.turn_id)
            )
        except DatabaseUnavailable:
            return False
        if message_id is None:
            return False
        return await self._try(to, lambda: self._platform.edit(to, message_id, content))

    async def _try(self, to: Destination, call: Callable[[], Awaitable[None]]) -> bool:
        """Do something that may be left out; returns whether it was done."""
        if not self._limiter.try_take(to.chat_id):
            return False
        try:
            await call()
        except RateLimited as error:
            self._limiter.penalize(error.wait_s)
        except PlatformError as error:
            _log.debug("left out: %s", error)
        else:
            return True
        return False

    def _question(self, asked: Asked) -> Content:
        buttons = tuple(
            Button(label, f"{asked.approval_id}:{word}")
            for word, label in BUTTONS
            if asked.can_be_always or word is not Decision.ALWAYS
        )
        return self.content(f"Allow `{asked.tool}` to do this?\n{_block(asked.subject)}", buttons)

    def _asking(self, asked: Questioned) -> Content:
        numbered = list(enumerate(asked.choices, 1))
        buttons = tuple(
            Button(f"{number}. {choice[:BUTTON_CHARS]}", f"{asked.clarification_id}:{number}")
            for number, choice in numbered
        )
        lines = [asked.question, *(f"{number}. {choice}" for number, choice in numbered)]
        text = "\n".join(lines)
        return self.content(split(f"{text}\n\n{ANSWER_HINT}", SUBJECT_UNITS)[0], buttons)


def _answered(asked: Questioned, answered: Answered) -> str:
    by = f" by {answered.answered_by}" if answered.answered_by else ""
    said = "Nobody answered in time." if answered.expired else f"Answered{by}: {answered.answer}"
    return split(f"{asked.question}\n\n{said}", SUBJECT_UNITS)[0]


def _decided(asked: Asked, decided: Decided) -> str:
    by = f" by {decided.decided_by}" if decided.decided_by else ""
    return f"{_DECIDED[decided.decision]}{by}: `{asked.tool}`\n{_block(asked.subject)}"


def _block(text: str) -> str:
    """A block of code, whatever fences the text itself has."""
    shown = split(text, SUBJECT_UNITS)[0] if units(text) > SUBJECT_UNITS else text
    longest = max(map(len, re.findall("`+", shown)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}\n{shown}\n{mark}"


def _final(ended: Ended) -> str:
    said = "\n\n".join(filter(None, (ended.text.strip(), ended.remark)))
    return "\n\n".join((said or "(no answer)", *ended.notes))
