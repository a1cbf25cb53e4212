"""People's answers to the agent's questions: in words, with yes or no, or by a button."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection

from gateway_service.chats.access import Access
from gateway_service.commands.base import CommandContext, denied
from gateway_service.commands.decisions import Decision, may_decide
from gateway_service.errors import AgentRefused
from gateway_service.messages import DONE, ButtonPress, MessageEvent, Reaction, Source
from gateway_service.storage import chats, inbox, outbox
from gateway_service.storage.accounts import AccountLease
from gateway_service.turns.questions import BUTTONS, NUMBERED
from hermes.agent.v1.approval_pb2 import AnswerClarificationRequest
from hermes.agent.v1.turn_event_pb2 import APPROVAL_DECISION_DENY, APPROVAL_DECISION_ONCE

NOT_YOURS = "The owner of this Hermes does not allow you to decide that."
WHICH = (
    "{} questions are open. Reply yes or no to the one that you mean, or press its button. "
    "`/approve` and `/deny` decide on the oldest."
)
NOT_KNOWN = "This button is no longer valid."

APPROVAL_ID, QUESTION_ID = "apr_", "clr_"
"""The prefixes of the ids of approvals and of questions that are answered in words; the message in
the chat has the same id."""

_YES_OR_NO: Mapping[str, Decision] = {
    **dict.fromkeys(("y", "yes", "ok", "okay"), APPROVAL_DECISION_ONCE),
    **dict.fromkeys(("n", "no"), APPROVAL_DECISION_DENY),
}
"""Words that decide an approval; they never allow more than once."""
_LISTED: Mapping[str, Decision] = {
    **{str(number): decision for number, (_, decision, _) in enumerate(NUMBERED, 1)},
    **{name: decision for word, decision, label in BUTTONS for name in (word, label.lower())},
}
"""Words that decide it where the choices are a list in the text."""
_THUMBS: Mapping[str, Decision] = {"👍": APPROVAL_DECISION_ONCE, "👎": APPROVAL_DECISION_DENY}
_WORDS = {word: decision for word, decision, _ in BUTTONS}


class PromptReplies(Struct, frozen=True):
    """Passes a person's answers from an account's chats to the agent, if they may give them."""

    _account: AccountLease
    access: Access
    _context: CommandContext
    _buttons: int
    """How many buttons a message of the platform may have."""

    @property
    def _decisions(self) -> Mapping[str, Decision]:
        return _YES_OR_NO if self._buttons >= len(BUTTONS) else {**_YES_OR_NO, **_LISTED}

    async def take(self, key: str, event: MessageEvent) -> str | None:
        """Take a message that answers a question; return why not, or an empty text. None if it
        answers none."""
        approvals = await self._find_approvals(key, event)
        if len(approvals) > 1:
            return WHICH.format(len(approvals))
        if approvals:
            decision = self._decisions[_normalize(event)]
            return await self._decide(event.source, approvals[0], decision)
        return "" if await self._try_answer(key, event) else None

    async def _find_approvals(self, key: str, event: MessageEvent) -> Sequence[str]:
        """Return the questions that a message may answer with yes or no, or with what the question
        lists: the one that it replies to, or all that the turn of its chat waits for; none if it
        waits for no approval."""
        if _normalize(event) not in self._decisions:
            return ()
        asked = await self._replied_to(event)
        if asked.startswith(APPROVAL_ID):
            return (asked,)
        session_id = "" if asked.startswith(QUESTION_ID) else await self._find_busy_session(key)
        if not session_id:
            return ()
        waiting = await self._context.agent.open_approvals(session_id, self._account.profile)
        found = [each.approval_id for each in waiting]
        if found:
            # The yes may be meant for a question in words, and must not allow anything then.
            turn = found[0].removeprefix(APPROVAL_ID).rpartition(":")[0]
            open_questions = partial(outbox.unsettled, prefix=f"{QUESTION_ID}{turn}:")
            found += await self._account.database.read(open_questions)
        return found

    async def _try_answer(self, key: str, event: MessageEvent) -> bool:
        """Give a message to the turn of the chat that waits for an answer; False if none waits."""
        account = self._account
        session_id = await self._find_busy_session(key)
        if not session_id or not event.text.strip():
            return False
        asked = await self._replied_to(event)
        given = AnswerClarificationRequest(
            profile=account.profile,
            session_id=session_id,
            clarification_id=asked if asked.startswith(QUESTION_ID) else "",
            answer=event.text,
            answered_by=event.source.user,
            answer_id=f"{account.platform}:{event.event_id}",
            denied_commands=self._denied(event.source),
        )
        return await self._submit(given)

    async def press(self, press: ButtonPress) -> str:
        """Pass on the press of a button, if its question was asked here; return the outcome."""
        question_id, _, word = press.data.rpartition(":")
        address = self._account.address(press.source)
        is_asked = partial(outbox.is_in_chat, address=address, delivery_id=question_id)
        is_known = word in _WORDS or word.isdecimal()
        if not is_known or not await self._account.database.read(is_asked):
            return NOT_KNOWN
        if word.isdecimal():
            given = AnswerClarificationRequest(
                profile=self._account.profile,
                clarification_id=question_id,
                answer=word,
                answered_by=press.source.user,
                denied_commands=self._denied(press.source),
            )
            return DONE if await self._submit(given) else "The question is over."
        return await self._decide(press.source, question_id, _WORDS[word]) or DONE

    async def react(self, reaction: Reaction) -> str:
        """Decide an open approval by a thumb on its question; return why the person may not."""
        decision = _THUMBS.get(reaction.emoji[:1])
        if decision is None:
            return ""
        asked = await self._find_delivery(reaction.source, reaction.message_id)
        if not asked.startswith(APPROVAL_ID):
            return ""
        outcome = await self._decide(reaction.source, asked, decision)
        return outcome if outcome == NOT_YOURS else ""  # else it is not open any more

    def _denied(self, source: Source) -> tuple[str, ...]:
        return denied(self._context.commands, self.access, source)

    async def _replied_to(self, event: MessageEvent) -> str:
        if not event.replies_to:
            return ""
        return await self._find_delivery(event.source, event.replies_to)

    async def _find_delivery(self, source: Source, message_id: str) -> str:
        address = self._account.address(source)
        found = await self._account.database.read(
            lambda conn: outbox.find_delivery(conn, address, message_id)
        )
        return found or ""

    async def _find_busy_session(self, key: str) -> str:
        """Return the session of a chat with a turn that has not ended; else an empty id."""
        profile = self._account.profile

        def find(conn: Connection) -> str:
            session_id = chats.session_of(conn, profile, key)
            is_busy = session_id and inbox.live_turns(conn, profile, session_id)
            return session_id or "" if is_busy else ""

        return await self._account.database.read(find)

    async def _decide(self, source: Source, approval_id: str, decision: Decision) -> str:
        if not may_decide(self.access, source, decision):
            return NOT_YOURS
        try:
            await self._context.agent.decide(
                approval_id, self._account.profile, decision, source.user
            )
        except AgentRefused as error:
            return error.message
        return ""

    async def _submit(self, given: AnswerClarificationRequest) -> bool:
        try:
            return await self._context.agent.answer(given)
        except AgentRefused:
            return False  # the question ended at the last moment


def _normalize(event: MessageEvent) -> str:
    return event.text.strip().rstrip(".!").lower()
