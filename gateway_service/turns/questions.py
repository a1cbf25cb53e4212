"""A turn's questions in its chat: asked with buttons or numbers, and replaced by their outcome."""

import re
from collections.abc import Sequence

from msgspec import Struct, field
from sqlalchemy import Connection

from gateway_service.messages import Button, Content, TurnRequest
from gateway_service.platforms.base import Traits
from gateway_service.platforms.markup import split, units
from gateway_service.storage import outbox, unsent
from gateway_service.storage.accounts import OUTBOX, AccountLease
from gateway_service.storage.outbox import Delivery
from hermes.agent.v1 import turn_event_pb2
from hermes.agent.v1.turn_event_pb2 import (
    ApprovalRequested,
    ApprovalResolved,
    ClarificationAnswered,
    ClarificationRequested,
    TurnEvent,
)
from services.clock import Clock
from services.redaction.redactor import Redactor

BUTTON_CHARS = 40
NOBODY = "(Nobody is there to answer. Decide yourself, and state your assumptions.)"
"""The answer to a question that nobody sees."""
ANSWER_HINT = "Your next message is the answer."
NUMBER_HINT = "Answer with a number, or with a word from the list."
SUBJECT_UNITS = 2000
ROOM_UNITS = 250
"""Room for what stands around a subject."""
FEWEST_UNITS = 50

BUTTONS = (
    ("once", turn_event_pb2.APPROVAL_DECISION_ONCE, "Once"),
    ("session", turn_event_pb2.APPROVAL_DECISION_SESSION, "This session"),
    ("always", turn_event_pb2.APPROVAL_DECISION_ALWAYS, "Always"),
    ("deny", turn_event_pb2.APPROVAL_DECISION_DENY, "Deny"),
)
"""Buttons, with the word that each sends."""
NUMBERED = (*BUTTONS[:2], BUTTONS[3], BUTTONS[2])
"""The same where there are no buttons; the choice that may be missing is the last."""
_DECIDED = {
    turn_event_pb2.APPROVAL_DECISION_ONCE: "Allowed once",
    turn_event_pb2.APPROVAL_DECISION_SESSION: "Allowed in this session",
    turn_event_pb2.APPROVAL_DECISION_ALWAYS: "Always allowed",
    turn_event_pb2.APPROVAL_DECISION_DENY: "Denied",
    turn_event_pb2.APPROVAL_DECISION_NOBODY: "Denied, because nobody could be asked",
}
_EXPIRED = "Denied, because nobody answered in time"
_OVER = "Expired, because the turn has ended"


class TurnQuestions(Struct, frozen=True):
    """The questions of a turn."""

    account: AccountLease
    traits: Traits
    clock: Clock
    redactor: Redactor
    turn: TurnRequest
    approvals: dict[str, ApprovalRequested] = field(default_factory=dict[str, ApprovalRequested])
    """Open ones, by id."""
    clarifications: dict[str, ClarificationRequested] = field(
        default_factory=dict[str, ClarificationRequested]
    )
    """Open ones, by id."""

    @property
    def are_open(self) -> bool:
        return bool(self.approvals or self.clarifications)

    @property
    def _limit(self) -> int:
        """How long what is asked may be."""
        room = self.traits.message_units - ROOM_UNITS
        return max(FEWEST_UNITS, min(SUBJECT_UNITS, room))

    async def take(self, event: TurnEvent) -> None:
        """Ask a question, or show its outcome; other events are passed over."""
        match event.WhichOneof("kind"):
            case "approval_requested":
                approval = event.approval_requested
                self.approvals[approval.approval_id] = approval
                await self._ask(approval.approval_id, self._approval(approval))
            case "approval_resolved":
                resolved = event.approval_resolved
                approval = self.approvals.pop(resolved.approval_id)
                outcome = self._call(_describe_decision(resolved), approval)
                await self._settle(resolved.approval_id, outcome, resolved.decided_by)
            case "clarification_requested":
                asked = event.clarification_requested
                self.clarifications[asked.clarification_id] = asked
                await self._ask(asked.clarification_id, self._clarification(asked))
            case "clarification_answered":
                answered = event.clarification_answered
                asked = self.clarifications.pop(answered.clarification_id)
                outcome = self._end(asked, _describe_answer(answered))
                await self._settle(answered.clarification_id, outcome, answered.answered_by)
            case _:
                pass

    async def expire(self) -> None:
        """Settle what the turn has left open."""
        for approval_id, approval in self.approvals.items():
            await self._settle(approval_id, self._call(_OVER, approval))
        for question_id, asked in self.clarifications.items():
            await self._settle(question_id, self._end(asked, f"{_OVER}."))

    async def _ask(self, question_id: str, content: Content) -> None:
        question, now = self._delivery(question_id, content), self.clock.now()
        await self.account.write(lambda conn: outbox.add(conn, question, now), notify=OUTBOX)

    async def _settle(self, question_id: str, text: str, by: str = "") -> None:
        """Replace a question by its outcome.

        Where nothing can be edited the outcome is a message of its own, unless the answer was given
        on this platform, whose people have seen it.
        """
        content, now = Content(self.redactor.redact(text)), self.clock.now()
        is_seen = by.startswith(f"{self.turn.source.platform}:")

        def write(conn: Connection) -> None:
            if self.traits.can_edit:
                outbox.show(conn, question_id, content, now)
            elif not unsent.withdraw(conn, question_id, content) and not is_seen:
                outbox.add(conn, self._delivery(f"{question_id}:end", content), now)

        await self.account.write(write, notify=OUTBOX)

    def _delivery(self, delivery_id: str, content: Content) -> Delivery:
        address = self.account.address(self.turn.source)
        return Delivery(delivery_id, address, [content], traceparent=self.turn.traceparent)

    def _approval(self, asked: ApprovalRequested) -> Content:
        def choices(table: Sequence[tuple[str, object, str]]) -> tuple[Button, ...]:
            return tuple(
                Button(label, f"{asked.approval_id}:{word}")
                for word, _, label in table
                if asked.can_be_always or word != "always"
            )

        text = f"Allow `{asked.tool}` to do this?\n{self._block(asked.subject)}"
        buttons = choices(BUTTONS)
        if len(buttons) > self.traits.buttons:
            lines = (f"{number}. {each.label}" for number, each in enumerate(choices(NUMBERED), 1))
            text, buttons = "\n".join((text, *lines, "", NUMBER_HINT)), ()
        return Content(self.redactor.redact(text), buttons)

    def _clarification(self, asked: ClarificationRequested) -> Content:
        numbered = list(enumerate(asked.choices, 1))
        buttons = tuple(
            Button(f"{number}. {choice[:BUTTON_CHARS]}", f"{asked.clarification_id}:{number}")
            for number, choice in numbered
        )
        lines = [asked.question, *(f"{number}. {choice}" for number, choice in numbered)]
        text = split("\n".join((*lines, "", ANSWER_HINT)), self._limit)[0]
        # The choices are in the text as well.
        shown = buttons if len(buttons) <= self.traits.buttons else ()
        return Content(self.redactor.redact(text), shown)

    def _end(self, asked: ClarificationRequested, said: str) -> str:
        return split(f"{asked.question}\n\n{said}", self._limit)[0]

    def _call(self, decided: str, asked: ApprovalRequested) -> str:
        return f"{decided}: `{asked.tool}`\n{self._block(asked.subject)}"

    def _block(self, text: str) -> str:
        """Return a code block whose fence is longer than any in the text."""
        shown = split(text, self._limit)[0] if units(text) > self._limit else text
        longest = max(map(len, re.findall("`+", shown)), default=0)
        mark = "`" * max(3, longest + 1)
        return f"{mark}\n{shown}\n{mark}"


def _describe_answer(answered: ClarificationAnswered) -> str:
    by = f" by {answered.answered_by}" if answered.answered_by else ""
    return "Nobody answered in time." if answered.expired else f"Answered{by}: {answered.answer}"


def _describe_decision(resolved: ApprovalResolved) -> str:
    by = f" by {resolved.decided_by}" if resolved.decided_by else ""
    return f"{_DECIDED.get(resolved.decision, _EXPIRED)}{by}"
