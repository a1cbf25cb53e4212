"""Questions to a person that are answered in words.

They are rows of the approvals, whose expiry and whose hold on the turn they share; the answer is in
the turn's event.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service import events
from agent_service.events import CLARIFY, Decision
from agent_service.storage import denials
from agent_service.storage.approvals import tell
from agent_service.storage.schema import approval, event
from services.errors import FailedPrecondition, NotFound

_CLARIFICATIONS = sa.select(approval).where(approval.c.tool == CLARIFY)
_BY_ID = _CLARIFICATIONS.where(approval.c.id == bindparam("id"))
_OF_SESSION = _CLARIFICATIONS.where(
    approval.c.session_id == bindparam("session_id"), approval.c.profile == bindparam("profile")
)
_OPEN = _OF_SESSION.where(approval.c.decision.is_(None)).order_by(
    approval.c.created_at, approval.c.id
)
_LATEST = _OF_SESSION.where(approval.c.decision == Decision.ANSWERED).order_by(
    approval.c.created_at.desc()
)
_DECIDE = (
    sa.update(approval)
    .where(approval.c.id == bindparam("key"), approval.c.decision.is_(None))
    .values(decision=Decision.ANSWERED, decided_by=bindparam("by"))
)
_EVENTS = sa.select(event.c.payload).where(
    event.c.turn_id == bindparam("turn_id"),
    event.c.kind == events.ClarificationAnswered.__name__,
)


class Answer(Struct, frozen=True):
    """What a person answers, and to what."""

    profile: str
    text: str
    answered_by: str
    clarification_id: str = ""
    session_id: str = ""
    """Whose question is meant where none is named: the one that has waited longest."""
    answer_id: str = ""
    """The same for the same answer, however often it comes."""
    denied: tuple[str, ...] = ()
    """Slash commands that whoever answers may not say."""


class Answered(Struct, frozen=True):
    """A question that has its answer."""

    clarification_id: str
    turn_id: str


def answers(conn: Connection, turn_id: str) -> dict[str, str]:
    """What a turn's questions were answered, by call key."""
    payloads = conn.execute(_EVENTS, {"turn_id": turn_id}).scalars()
    return {payload["call_id"]: payload["answer"] for payload in payloads}


def answer(conn: Connection, given: Answer, now: datetime) -> Answered:
    """Take an answer, once; NotFound when nothing waits for it, FailedPrecondition when late."""
    row = _asked(conn, given)
    if row is None or row.profile != given.profile:
        raise NotFound("no question waits for an answer")
    answered = Answered(row.id, row.turn_id)
    if row.decision is not None:
        if row.decision == Decision.ANSWERED and _is_same(conn, row, given):
            return answered
        raise FailedPrecondition("the question has been answered, or has expired")
    if row.expires_at < now:
        raise FailedPrecondition("the question has expired")
    if not conn.execute(_DECIDE, {"key": row.id, "by": given.answered_by}).rowcount:
        raise FailedPrecondition("the question has just been answered")
    # The turn waits, so that nobody owns it; whoever goes on with it reads its request again.
    denials.add(conn, row.turn_id, given.denied)
    told = events.ClarificationAnswered(
        row.id, row.call_id, given.text.replace("\0", ""), given.answered_by, given.answer_id
    )
    tell(conn, row.turn_id, told, now)
    return answered


def _asked(conn: Connection, given: Answer) -> sa.Row[Any] | None:
    if given.clarification_id:
        return conn.execute(_BY_ID, {"id": given.clarification_id}).one_or_none()
    of_session = {"session_id": given.session_id, "profile": given.profile}
    latest = conn.execute(_LATEST, of_session).first()
    if latest is not None and given.answer_id and _is_same(conn, latest, given):
        return latest
    return conn.execute(_OPEN, of_session).first()


def _is_same(conn: Connection, row: sa.Row[Any], given: Answer) -> bool:
    """Whether this very answer has been taken before."""
    for payload in conn.execute(_EVENTS, {"turn_id": row.turn_id}).scalars():
        if payload["call_id"] == row.call_id:
            same = ("answer_id", given.answer_id) if given.answer_id else ("answer", given.text)
            return bool(payload[same[0]] == same[1])
    return False
