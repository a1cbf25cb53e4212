"""Approvals and questions that are answered in words; the first decision counts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records import events
from agent_service.records.events import Decision
from agent_service.records.requests import PARENT_TURN, TurnRequest
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import denials
from agent_service.storage.schema import approval, approval_grant, turn
from agent_service.storage.turns import REQUEST, insert_events
from services.database import db_now, insert_ignore
from services.errors import FailedPrecondition, NotFound


class ApprovalInfo(Struct, frozen=True):
    """A question to a person."""

    approval_id: str
    turn_id: str
    session_id: str
    tool: str
    subject: str
    create_time: datetime
    expire_time: datetime
    decision: Decision | None
    decided_by: str
    requester: str
    """The platform's id of the person whose request it is; empty for a program."""
    platform: str


class Answer(Struct, frozen=True):
    """A person's answer in words."""

    profile: str
    text: str
    answered_by: str
    clarification_id: str = ""
    session_id: str = ""
    answer_id: str = ""
    """Identifies the answer in retries."""
    denied: tuple[str, ...] = ()
    """Slash commands that the person who answers may not use."""


_INSERT = sa.insert(approval)
_BY_ID = sa.select(approval).where(approval.c.id == bindparam("id"))
_EXPIRED = sa.select(approval).where(
    approval.c.decision.is_(None), approval.c.expires_at < bindparam("now")
)
_DECIDE = (
    sa.update(approval)
    .where(approval.c.id == bindparam("key"), approval.c.decision.is_(None))
    .values(
        decision=bindparam("taken"),
        decided_by=bindparam("by"),
        answer=bindparam("text"),
        answer_id=bindparam("said"),
    )
)
_QUESTIONS = sa.select(approval).where(
    approval.c.tool == events.CLARIFY,
    approval.c.session_id == bindparam("session_id"),
    approval.c.profile == bindparam("profile"),
)
_OLDEST_QUESTION = _QUESTIONS.where(approval.c.decision.is_(None)).order_by(
    approval.c.created_at, approval.c.id
)
_LAST_ANSWERED = _QUESTIONS.where(approval.c.decision == Decision.ANSWERED).order_by(
    approval.c.created_at.desc()
)
_OPEN_OF_TURN = sa.select(sa.func.count()).where(
    approval.c.turn_id == bindparam("turn_id"), approval.c.decision.is_(None)
)
_TELL = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.state == "WAITING_PERSON")
    .values(last_sequence=turn.c.last_sequence + 1, version=turn.c.version + 1)
    .returning(turn.c.last_sequence, turn.c.epoch)
)
_RESUME = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.state == "WAITING_PERSON")
    .values(state="QUEUED_RESUME")
)


def ask(conn: Connection, transition: Transition) -> None:
    """Store the approvals that a turn waits for."""
    live = transition.turn
    asker = _origin(conn, live)
    rows = [
        {
            "id": asked.approval_id,
            "profile": live.profile,
            "session_id": live.session_id,
            "turn_id": live.id,
            "call_id": asked.call_id,
            "tool": asked.tool,
            "subject": asked.subject.replace("\0", ""),
            "binding": asked.binding,
            "decision": None,
            "decided_by": "",
            "created_at": transition.now,
            "expires_at": asked.expires_at,
            "requester": asker.get("user_id", "")[:200],
            "platform": asker.get("platform", live.platform)[:32],
        }
        for asked in transition.approvals
    ]
    conn.execute(_INSERT, rows)


def list_open(conn: Connection, profile: str, session_id: str) -> Sequence[ApprovalInfo]:
    """Return open approvals, oldest first; of all sessions if `session_id` is empty."""
    found = sa.select(approval).where(
        approval.c.profile == profile,
        approval.c.decision.is_(None),
        approval.c.tool != events.CLARIFY,
    )
    if session_id:
        found = found.where(approval.c.session_id == session_id)
    return [
        _info(row) for row in conn.execute(found.order_by(approval.c.created_at, approval.c.id))
    ]


def expired(conn: Connection, now: datetime) -> Sequence[ApprovalInfo]:
    """Return the approvals that nobody answered in time."""
    return [_info(row) for row in conn.execute(_EXPIRED, {"now": now})]


def resolve(
    conn: Connection,
    approval_id: str,
    profile: str | None,
    decision: Decision,
    decided_by: str,
    now: datetime,
) -> tuple[ApprovalInfo, bool]:
    """Decide an approval; FailedPrecondition if it was decided otherwise.

    Returns the approval, and whether it was decided just now.
    """
    row = conn.execute(_BY_ID, {"id": approval_id}).one_or_none()
    if row is None or (profile is not None and row.profile != profile):
        raise NotFound(f"there is no approval {approval_id}")
    if row.tool == events.CLARIFY and decision is not Decision.EXPIRED:
        raise FailedPrecondition(f"{approval_id} is a question: it is answered in words")
    for_longer = decision in (Decision.SESSION, Decision.ALWAYS)
    if for_longer and not row.binding:
        raise FailedPrecondition(f"approval {approval_id} can only be given once")
    if row.expires_at < now and decision is not Decision.EXPIRED and row.decision is None:
        raise FailedPrecondition(f"approval {approval_id} has expired")
    is_new = _decide(conn, row, decision, decided_by, now)
    decided = _info(conn.execute(_BY_ID, {"id": approval_id}).one())
    if not is_new and decided.decision is not decision:
        raise FailedPrecondition(f"approval {approval_id} is decided: {decided.decision}")
    if is_new and for_longer:
        session_id = decided.session_id if decision is Decision.SESSION else ""
        put_grant(conn, row.profile, session_id, (decided.tool, row.binding), decided_by)
    return decided, is_new


def answer(conn: Connection, given: Answer, now: datetime) -> ApprovalInfo:
    """Store an answer once; NotFound if no question waits for it, FailedPrecondition if late."""
    row = _asked(conn, given)
    if row is None or (row.profile, row.tool) != (given.profile, events.CLARIFY):
        raise NotFound("no question waits for an answer")
    if row.decision is not None:
        if row.decision == Decision.ANSWERED and _is_same(row, given):
            return _info(row)
        raise FailedPrecondition("the question has been answered, or has expired")
    if row.expires_at < now:
        raise FailedPrecondition("the question has expired")
    # A waiting turn has no owner; the next owner reads its request again.
    denials.add(conn, row.turn_id, given.denied)
    if not _decide(conn, row, Decision.ANSWERED, given.answered_by, now, given):
        raise FailedPrecondition("the question has just been answered")
    return _info(row)


def expire(conn: Connection, approval_id: str, now: datetime) -> bool:
    """Let an approval expire, unless it was just decided or its session is gone."""
    try:
        resolve(conn, approval_id, None, Decision.EXPIRED, "", now)
    except (FailedPrecondition, NotFound):
        return False
    return True


def _decide(
    conn: Connection,
    row: sa.Row[Any],
    decision: Decision,
    by: str,
    now: datetime,
    given: Answer | None = None,
) -> bool:
    """Store and report a decision, and continue the turn if it waits for nothing else.

    Returns False if it was decided already.
    """
    text, answer_id = ("", "") if given is None else (given.text, given.answer_id)
    decided = {"taken": decision, "by": by, "text": text, "said": answer_id}
    if not conn.execute(_DECIDE, {"key": row.id, **decided}).rowcount:
        return False
    if (waiting := conn.execute(_TELL, {"turn_key": row.turn_id}).one_or_none()) is not None:
        told = events.ApprovalResolved(row.id, row.call_id, row.tool, decision, by, text)
        recorded = events.Recorded(waiting.last_sequence, now, waiting.epoch, told)
        insert_events(conn, row.turn_id, [recorded])
        if conn.execute(_OPEN_OF_TURN, {"turn_id": row.turn_id}).scalar_one() == 0:
            conn.execute(_RESUME, {"turn_key": row.turn_id})
    return True


def _asked(conn: Connection, given: Answer) -> sa.Row[Any] | None:
    """Return the question that is answered: the named one, else the oldest of the session."""
    if given.clarification_id:
        return conn.execute(_BY_ID, {"id": given.clarification_id}).one_or_none()
    of_session = {"session_id": given.session_id, "profile": given.profile}
    latest = conn.execute(_LAST_ANSWERED, of_session).first()
    if latest is not None and given.answer_id and _is_same(latest, given):
        return latest
    return conn.execute(_OLDEST_QUESTION, of_session).first()


def _is_same(row: sa.Row[Any], given: Answer) -> bool:
    if given.answer_id:
        return bool(row.answer_id == given.answer_id)
    return bool(row.answer == given.text)


def is_granted(conn: Connection, profile: str, session_id: str, tool: str, binding: str) -> bool:
    """Return whether exactly this call is allowed, in the session or always."""
    grant = approval_grant.c
    same = grant.profile == profile, grant.tool == tool, grant.binding == binding
    found = sa.select(grant.tool).where(*same, grant.session_id.in_((session_id, ""))).limit(1)
    return conn.execute(found).first() is not None


def put_grant(
    conn: Connection, profile: str, session_id: str, bound: tuple[str, str], decided_by: str
) -> None:
    """Store a grant for a tool and exactly what it does."""
    tool, binding = bound
    row = {"profile": profile, "session_id": session_id, "tool": tool, "binding": binding}
    put = insert_ignore(approval_grant).values(created_at=db_now())
    conn.execute(put, row | {"decided_by": decided_by})


def _origin(conn: Connection, live: LiveTurn) -> Mapping[str, str]:
    """Return the origin of the words that a turn works on; for a subagent, its parent's."""
    parent: TurnRequest | None = None
    if turn_id := live.origin.get(PARENT_TURN, ""):
        parent = conn.execute(REQUEST, {"turn_id": turn_id}).scalar_one_or_none()
    return live.origin if parent is None else parent.origin


def _info(row: sa.Row[Any]) -> ApprovalInfo:
    return ApprovalInfo(
        approval_id=row.id,
        turn_id=row.turn_id,
        session_id=row.session_id,
        tool=row.tool,
        subject=row.subject,
        create_time=row.created_at,
        expire_time=row.expires_at,
        decision=None if row.decision is None else Decision(row.decision),
        decided_by=row.decided_by,
        requester=row.requester,
        platform=row.platform,
    )
