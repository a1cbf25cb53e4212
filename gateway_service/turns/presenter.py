"""Shows a turn in a chat: progress in a placeholder, then the answer."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress

from msgspec import Struct, field
from msgspec.structs import replace
from sqlalchemy import Connection

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient
from gateway_service.errors import AgentRefused, PlatformError, RateLimited
from gateway_service.messages import Button, Content, TurnRequest
from gateway_service.platforms.base import Destination, Platform
from gateway_service.platforms.markup import first_part, split, units
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage import chats, inbox, outbox
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.outbox import REPEAT_UNITS, Delivery
from hermes.agent.v1 import turn_event_pb2
from hermes.agent.v1.turn_event_pb2 import (
    ApprovalRequested,
    ApprovalResolved,
    ClarificationAnswered,
    ClarificationRequested,
    TurnEvent,
    TurnFinished,
)
from services.clock import Clock
from services.database.retries import until_answered
from services.errors import DatabaseUnavailable
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.telemetry.logs import bind

_log = logging.getLogger(__name__)

LAST_EDIT_S = 15.0
BUTTON_CHARS = 40
ANSWER_HINT = "Your next message is the answer."
SUBJECT_UNITS = 2000

DELTAS_PER_SECOND = 5

BUTTONS = (
    ("once", turn_event_pb2.APPROVAL_DECISION_ONCE, "Once"),
    ("session", turn_event_pb2.APPROVAL_DECISION_SESSION, "This session"),
    ("always", turn_event_pb2.APPROVAL_DECISION_ALWAYS, "Always"),
    ("deny", turn_event_pb2.APPROVAL_DECISION_DENY, "Deny"),
)
"""Buttons, with the word that each sends."""
_DECIDED = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: "Allowed once",
    turn_event_pb2.APPROVAL_DECISION_SESSION: "Allowed in this session",
    turn_event_pb2.APPROVAL_DECISION_ALWAYS: "Always allowed",
    turn_event_pb2.APPROVAL_DECISION_DENY: "Denied",
    turn_event_pb2.APPROVAL_DECISION_NOBODY: "Denied, as nobody could be asked",
}
_EXPIRED = "Denied, as nobody decided in time"
_OVER = "Expired, as the turn is over"


class Draft(Struct):
    """What a turn can show so far."""

    step: int = 0
    text: str = ""
    tool: str = ""
    tools: list[str] = field(default_factory=list[str])
    """The tools of the last step."""
    approvals: dict[str, ApprovalRequested] = field(default_factory=dict[str, ApprovalRequested])
    questions: dict[str, ClarificationRequested] = field(
        default_factory=dict[str, ClarificationRequested]
    )
    notes: list[str] = field(default_factory=list[str])
    remark: str = ""
    """What is shown before there is anything else."""
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


class TurnPresenter(Struct, frozen=True):
    """Shows the turns of one account in its chats."""

    account: AccountLease
    platform: Platform
    limiter: Limiter
    agent: AgentClient
    clock: Clock
    redactor: Redactor
    hooks: Hooks

    def content(self, text: str, buttons: tuple[Button, ...] = ()) -> Content:
        return Content(self.redactor.redact(text), buttons)

    async def answer(self, turn: TurnRequest, refusal: str = "", remark: str = "") -> None:
        """Show a turn up to its end, or why it was refused."""
        with bind(turn_id=turn.turn_id, session_id=turn.session_id):
            if not refusal:
                self._notify("agent:start", turn)
            await until_answered(
                self.clock, "an answer", lambda: self._finish(turn, refusal, remark)
            )

    async def _finish(self, turn: TurnRequest, refusal: str, remark: str) -> None:
        """Put the answer into the outbox and close its message in one transaction."""
        answer = refusal or await self._follow(turn, remark)
        limit = self.platform.traits.message_units - REPEAT_UNITS
        said = self.redactor.redact(answer)
        first, *more = (Content(text) for text in split(said, limit, self.platform.traits.length))
        now = self.clock.now()

        def write(conn: Connection) -> None:
            if not outbox.show(conn, turn.turn_id, first, now):
                outbox.add(conn, self._delivery(turn, turn.turn_id, first), now)
            rest = self._delivery(turn, turn.turn_id, *more)
            outbox.add(conn, replace(rest, first_part=2), now)
            inbox.close(conn, turn.turn_id, now)
            chats.touch_session(conn, turn.profile, turn.session_id, now)

        await self.account.write(write, notify=OUTBOX)
        self._notify("agent:end", turn, response=said)

    def _notify(self, event: str, turn: TurnRequest, **more: object) -> None:
        self.hooks.notify_chat(
            event, turn.source, turn.session_id, turn_id=turn.turn_id, message=turn.text, **more
        )

    def _delivery(self, turn: TurnRequest, delivery_id: str, *contents: Content) -> Delivery:
        address = self.account.address(turn.source)
        return Delivery(delivery_id, address, contents, traceparent=turn.traceparent)

    async def _follow(self, turn: TurnRequest, remark: str) -> str:
        draft = Draft(remark=remark)
        async with Workers() as workers:
            workers.start(f"draft of {turn.turn_id}", self._show(turn, draft))
            try:
                answer = await self._watch(turn, draft)
            except AgentRefused as error:
                answer = error.message
            draft.over.set()
            # An edit that is being sent must not arrive after the answer.
            await workers.drain(LAST_EDIT_S)
        await self._expire(draft)
        return answer

    async def _expire(self, draft: Draft) -> None:
        """Clear the buttons of questions that the turn has left open."""
        for approval_id, approval in draft.approvals.items():
            await self._settle(approval_id, _describe_call(_OVER, approval))
        for question_id, asked in draft.questions.items():
            await self._settle(question_id, _describe_end(asked, f"{_OVER}."))

    async def _watch(self, turn: TurnRequest, draft: Draft) -> str:
        watching = self.agent.watch(
            turn.turn_id, turn.profile, max_deltas_per_second=DELTAS_PER_SECOND
        )
        async with aclosing(watching) as batches:
            async for events in batches:
                for event in events:
                    if event.HasField("turn_finished"):
                        return render_answer(event.turn_finished, draft.notes)
                    await self._take(turn, draft, event)
        raise AssertionError("a turn that is followed ends")

    async def _take(self, turn: TurnRequest, draft: Draft, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "text_delta":
                draft.take(event.text_delta.step, event.text_delta.text, event.text_delta.offset)
            case "text_snapshot":
                draft.take(event.text_snapshot.step, event.text_snapshot.text)
            case "text_finished":
                step, tools = event.text_finished.step, draft.tools
                draft.take(step, event.text_finished.text)
                self._notify("agent:step", turn, iteration=step, tool_names=tools)
                draft.tools = []
            case "tool_started":
                draft.tool = event.tool_started.name
                draft.tools.append(draft.tool)
            case "notice" if event.notice.lasts:
                draft.notes.append(event.notice.text)
            case _:
                await self._take_question(turn, draft, event)

    async def _take_question(self, turn: TurnRequest, draft: Draft, event: TurnEvent) -> None:
        match event.WhichOneof("kind"):
            case "approval_requested":
                approval = event.approval_requested
                draft.approvals[approval.approval_id] = approval
                await self._ask(turn, approval.approval_id, self._approval(approval))
            case "approval_resolved":
                resolved = event.approval_resolved
                approval = draft.approvals.pop(resolved.approval_id)
                await self._settle(resolved.approval_id, _describe_decision(approval, resolved))
            case "clarification_requested":
                question = event.clarification_requested
                draft.questions[question.clarification_id] = question
                await self._ask(turn, question.clarification_id, self._question(question))
            case "clarification_answered":
                answered = event.clarification_answered
                question = draft.questions.pop(answered.clarification_id)
                await self._settle(answered.clarification_id, _describe_answer(question, answered))
            case _:
                pass

    async def _ask(self, turn: TurnRequest, question_id: str, content: Content) -> None:
        question, now = self._delivery(turn, question_id, content), self.clock.now()
        await self.account.write(lambda conn: outbox.add(conn, question, now), notify=OUTBOX)

    async def _settle(self, question_id: str, text: str) -> None:
        """Replace a question in the chat by its outcome."""
        content, now = self.content(text), self.clock.now()
        await self.account.write(
            lambda conn: outbox.show(conn, question_id, content, now), notify=OUTBOX
        )

    async def _show(self, turn: TurnRequest, draft: Draft) -> None:
        """Edit the placeholder and show that Hermes is typing; failures are skipped."""
        traits = self.platform.traits
        to = Destination(turn.source.chat_id, turn.source.thread_id)
        seen, typing_at = "", 0.0
        while not draft.over.is_set():
            now = self.clock.monotonic()
            if now >= typing_at and not draft.approvals and not draft.questions:
                typing_at = now + traits.typing_interval_s
                await self._try(to, lambda: self.platform.typing(to))
            # Redacted as a whole: a secret may have come in several pieces.
            text = first_part(
                self.redactor.redact(draft.shown), traits.message_units, self.platform.traits.length
            )
            if text not in ("", seen) and await self._edit(turn, to, Content(text)):
                seen = text
            with suppress(TimeoutError):
                async with asyncio.timeout(traits.edit_interval_s):
                    await draft.over.wait()

    async def _edit(self, turn: TurnRequest, to: Destination, content: Content) -> bool:
        try:
            message_id = await self.account.database.read(
                lambda conn: outbox.message_id(conn, turn.turn_id)
            )
        except DatabaseUnavailable:
            return False
        if message_id is None:
            return False
        return await self._try(to, lambda: self.platform.edit(to, message_id, content))

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

    def _approval(self, asked: ApprovalRequested) -> Content:
        buttons = tuple(
            Button(label, f"{asked.approval_id}:{word}")
            for word, _, label in BUTTONS
            if asked.can_be_always or word != "always"
        )
        return self.content(f"Allow `{asked.tool}` to do this?\n{_block(asked.subject)}", buttons)

    def _question(self, asked: ClarificationRequested) -> Content:
        numbered = list(enumerate(asked.choices, 1))
        buttons = tuple(
            Button(f"{number}. {choice[:BUTTON_CHARS]}", f"{asked.clarification_id}:{number}")
            for number, choice in numbered
        )
        lines = [asked.question, *(f"{number}. {choice}" for number, choice in numbered)]
        text = "\n".join(lines)
        return self.content(split(f"{text}\n\n{ANSWER_HINT}", SUBJECT_UNITS)[0], buttons)


def _describe_answer(asked: ClarificationRequested, answered: ClarificationAnswered) -> str:
    by = f" by {answered.answered_by}" if answered.answered_by else ""
    said = "Nobody answered in time." if answered.expired else f"Answered{by}: {answered.answer}"
    return _describe_end(asked, said)


def _describe_end(asked: ClarificationRequested, said: str) -> str:
    return split(f"{asked.question}\n\n{said}", SUBJECT_UNITS)[0]


def _describe_decision(asked: ApprovalRequested, resolved: ApprovalResolved) -> str:
    by = f" by {resolved.decided_by}" if resolved.decided_by else ""
    decided = _DECIDED.get(resolved.decision, _EXPIRED)
    return _describe_call(f"{decided}{by}", asked)


def _describe_call(decided: str, asked: ApprovalRequested) -> str:
    return f"{decided}: `{asked.tool}`\n{_block(asked.subject)}"


def _block(text: str) -> str:
    """Return a code block whose fence is longer than any in the text."""
    shown = split(text, SUBJECT_UNITS)[0] if units(text) > SUBJECT_UNITS else text
    longest = max(map(len, re.findall("`+", shown)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}\n{shown}\n{mark}"


def render_answer(finished: TurnFinished, notes: Sequence[str] = ()) -> str:
    """Return the answer of a turn that has ended, with notes."""
    answer = "\n\n".join(filter(None, outcome_parts(finished)))
    return "\n\n".join((answer or "(no answer)", *notes))


def outcome_parts(finished: TurnFinished) -> tuple[str, str]:
    """Return what the model has said in the end, and a remark on how the turn ended."""
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
