"""Shows a turn in a chat: progress in a placeholder, then the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from random import uniform

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient
from gateway_service.errors import AgentRefused, PlatformError, RateLimited
from gateway_service.messages import Content, TurnRequest
from gateway_service.platforms.base import Destination, Platform
from gateway_service.platforms.markup import first_part, split
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage import chats, inbox, outbox, unsent
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.outbox import REPEAT_UNITS, Delivery
from gateway_service.turns.questions import NOBODY, TurnQuestions
from hermes.agent.v1.approval_pb2 import AnswerClarificationRequest
from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_NOBODY, TurnEvent, TurnFinished
from services.clock import Clock
from services.database.retries import until_answered
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.telemetry.logs import bind

_log = logging.getLogger(__name__)

LAST_EDIT_S = 15.0
DELTAS_PER_SECOND = 5
SOON_S = 0.02
"""When to look again for a placeholder that is being sent; the pause doubles each time."""


class Draft(Struct):
    """What a turn can show so far."""

    step: int = 0
    text: str = ""
    tool: str = ""
    tools: list[str] = field(default_factory=list[str])
    """The tools of the last step."""
    notes: list[str] = field(default_factory=list[str])
    remark: str = ""
    """What is shown before there is anything else."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def shown(self) -> str:
        doing = f"▸ {self.tool} …" if self.tool else ""
        return "\n\n".join(filter(None, (self.text, doing))) or self.remark

    def take(self, step: int, text: str, offset: int = 0) -> None:
        if step != self.step:
            self.step, self.text = step, ""
        self.text = self.text[:offset] + text
        self.tool = ""
        self.changed.set()

    def take_event(self, event: TurnEvent) -> bool:
        """Take an event of the turn; False if it changes nothing here."""
        match event.WhichOneof("kind"):
            case "text_delta":
                self.take(event.text_delta.step, event.text_delta.text, event.text_delta.offset)
            case "text_snapshot":
                self.take(event.text_snapshot.step, event.text_snapshot.text)
            case "text_finished":
                self.take(event.text_finished.step, event.text_finished.text)
            case "tool_started":
                self.tool = event.tool_started.name
                self.tools.append(self.tool)
                self.changed.set()
            case "notice" if event.notice.lasts:
                self.notes.append(event.notice.text)
            case _:
                return False
        return True

    def end(self) -> None:
        self.over.set()
        self.changed.set()


class TurnPresenter(Struct, frozen=True):
    """Shows the turns of one account in its chats."""

    account: AccountLease
    platform: Platform
    limiter: Limiter
    agent: AgentClient
    clock: Clock
    redactor: Redactor
    hooks: Hooks
    pauses_s: tuple[float, float] = (0.0, 0.0)
    """The shortest and the longest pause between the messages of an answer."""

    def content(self, text: str) -> Content:
        return Content(self.redactor.redact(text))

    async def answer(self, turn: TurnRequest, refusal: str = "", remark: str = "") -> None:
        """Show a turn up to its end, or why it was refused."""
        with bind(turn_id=turn.turn_id, session_id=turn.session_id):
            if not refusal:
                self.hooks.notify_turn("agent:start", turn)
            await until_answered(
                self.clock, "an answer", lambda: self._finish(turn, refusal, remark)
            )

    async def _finish(self, turn: TurnRequest, refusal: str, remark: str) -> None:
        """Put the answer into the outbox and close its message in one transaction."""
        traits = self.platform.traits
        answer = refusal or await self._follow(turn, remark)
        limit = traits.message_units - REPEAT_UNITS
        redacted = self.redactor.redact(answer)
        first, *more = (Content(text) for text in split(redacted, limit, traits.length))
        pauses_s = [uniform(*self.pauses_s) for _ in more]  # noqa: S311 - nobody guesses them
        now = self.clock.now()

        def write(conn: Connection) -> None:
            if not traits.can_edit or not outbox.show(conn, turn.turn_id, first, now):
                outbox.add(conn, self._delivery(turn, turn.turn_id, first), now)
            rest = self._delivery(turn, turn.turn_id, *more)
            outbox.add(conn, replace(rest, first_part=2, pauses_s=pauses_s), now)
            unsent.release(conn, unsent.files_of(turn.turn_id), now)
            inbox.close(conn, turn.turn_id, now)
            chats.touch_session(conn, turn.profile, turn.session_id, now)

        await self.account.write(write, notify=OUTBOX)
        self.hooks.notify_turn("agent:end", turn, response=redacted)

    def _delivery(self, turn: TurnRequest, delivery_id: str, *contents: Content) -> Delivery:
        address = self.account.address(turn.source)
        return Delivery(delivery_id, address, contents, traceparent=turn.traceparent)

    async def _follow(self, turn: TurnRequest, remark: str) -> str:
        questions = TurnQuestions(
            self.account, self.platform.traits, self.clock, self.redactor, turn
        )
        draft = await self._begin_draft(turn, remark)
        async with Workers() as workers:
            workers.start(f"typing of {turn.turn_id}", self._type(turn, draft, questions))
            if self.platform.traits.can_edit:
                workers.start(f"draft of {turn.turn_id}", self._show(turn, draft))
            try:
                answer = await self._watch(turn, draft, questions)
            except AgentRefused as error:
                answer = error.message
            draft.end()
            # An edit that is being sent must not arrive after the answer.
            await workers.drain(LAST_EDIT_S)
        await questions.expire()
        return answer

    async def _begin_draft(self, turn: TurnRequest, remark: str) -> Draft:
        """Return what is shown first; without edits, a remark is a message of its own."""
        draft = Draft(remark=remark)
        draft.changed.set()
        if remark and not self.platform.traits.can_edit:
            said = self._delivery(turn, f"{turn.turn_id}:remark", self.content(remark))
            now = self.clock.now()
            await self.account.write(lambda conn: outbox.add(conn, said, now), notify=OUTBOX)
        return draft

    async def _watch(self, turn: TurnRequest, draft: Draft, questions: TurnQuestions) -> str:
        watching = self.agent.watch(
            turn.turn_id, turn.profile, max_deltas_per_second=DELTAS_PER_SECOND
        )
        async with aclosing(watching) as batches:
            async for events in batches:
                for event in events:
                    if event.HasField("turn_finished"):
                        return render_answer(event.turn_finished, draft.notes)
                    if not draft.take_event(event):
                        await questions.take(event)
                        await self._answer_for_nobody(turn, event)
                    if event.HasField("text_finished"):
                        step, tools = event.text_finished.step, draft.tools
                        self.hooks.notify_turn("agent:step", turn, iteration=step, tool_names=tools)
                        draft.tools = []
        raise AssertionError("a turn that is followed ends")

    async def _answer_for_nobody(self, turn: TurnRequest, event: TurnEvent) -> None:
        """Answer a question at once if no person sees it."""
        if not turn.source.has_nobody:
            return
        with suppress(AgentRefused):
            if event.HasField("approval_requested"):
                asked = event.approval_requested.approval_id
                user = turn.source.user
                await self.agent.decide(asked, turn.profile, APPROVAL_DECISION_NOBODY, user)
            elif event.HasField("clarification_requested"):
                given = AnswerClarificationRequest(
                    profile=turn.profile,
                    clarification_id=event.clarification_requested.clarification_id,
                    answer=NOBODY,
                    answered_by=turn.source.user,
                )
                await self.agent.answer(given)

    async def _type(self, turn: TurnRequest, draft: Draft, questions: TurnQuestions) -> None:
        """Show that Hermes is typing, unless it waits for an answer."""
        to = Destination(turn.source.chat_id, turn.source.thread_id)
        while not draft.over.is_set():
            if not questions.are_open:
                await self._try(to, lambda: self.platform.typing(to))
            await _wait(draft.over, self.platform.traits.typing_interval_s)

    async def _show(self, turn: TurnRequest, draft: Draft) -> None:
        """Edit the placeholder whenever there is more to show; what fails is left out."""
        traits = self.platform.traits
        to = Destination(turn.source.chat_id, turn.source.thread_id)
        seen, soon_s = "", SOON_S
        message_id: str | None = None
        while not draft.over.is_set():
            draft.changed.clear()
            # Redacted as a whole: a secret may have come in several pieces.
            shown = self.redactor.redact(draft.shown)
            text = first_part(shown, traits.message_units, traits.length)
            if text in ("", seen):
                await draft.changed.wait()
            elif (message_id := message_id or await self._find_placeholder(turn)) is None:
                await _wait(draft.over, soon_s)
                soon_s = min(2 * soon_s, traits.edit_interval_s)
            else:
                content = Content(text)
                edit = partial(self.platform.edit, to, message_id, content)
                seen = text if await self._try(to, edit) else seen
                await _wait(draft.over, traits.edit_interval_s)

    async def _find_placeholder(self, turn: TurnRequest) -> str | None:
        """Return the id of the message that the answer is shown in, once it was sent."""
        try:
            return await self.account.database.read(
                lambda conn: outbox.message_id(conn, turn.turn_id)
            )
        except DatabaseUnavailable:
            return None

    async def _try(self, to: Destination, call: Callable[[], Awaitable[None]]) -> bool:
        """Make a call that may be skipped; return whether it was made."""
        if not self.limiter.try_take(to.chat_id):
            return False
        try:
            await call()
        except RateLimited as error:
            self.limiter.penalize(error.wait_s)
        except PlatformError as error:
            _log.debug("left out: %s", error)
        else:
            return True
        return False


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def render_answer(finished: TurnFinished, notes: Sequence[str] = ()) -> str:
    """Return the answer of a turn that has ended, with notes."""
    answer = "\n\n".join(filter(None, outcome_parts(finished)))
    return "\n\n".join((answer or "(no answer)", *notes))


def outcome_parts(finished: TurnFinished) -> tuple[str, str]:
    """Return the model's last text, and a remark on how the turn ended."""
    match finished.WhichOneof("outcome"):
        case "completed":
            return finished.completed.answer.strip(), ""
        case "failed":
            return "", finished.failed.failure.message or "The turn failed."
        case "cancelled":
            cancelled = finished.cancelled
            return cancelled.partial_answer.strip(), f"Stopped. {cancelled.message}".rstrip()
        case "limit_reached":
            limit = finished.limit_reached
            return limit.partial_answer.strip(), limit.message or "A limit was reached."
        case _:
            return "", finished.needs_review.message or "A person has to look at this."
