"""The journal of a claimed turn: its steps, from which it is resumed."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records import events
from agent_service.records.calls import Decided, PendingCall, StepState
from agent_service.records.compression import NOTHING, apply_compression
from agent_service.records.events import Decision
from agent_service.records.model import encoded
from agent_service.records.overlays import Overlay
from agent_service.records.requests import REVIEW, TurnRequest
from agent_service.records.search_query import text_of
from agent_service.records.transition import Transition
from agent_service.records.turn_state import LiveTurn
from agent_service.storage import approvals, denials, reviews
from agent_service.storage.claims import FILES_STEP, SCRIPT_STEP, ClaimedTurn, script_of
from agent_service.storage.schema import approval, message, session, step, turn
from agent_service.storage.sessions import OVERLAY, TOKENS_PER_BYTE, notices
from agent_service.storage.sessions import get_state as get_session_state
from agent_service.storage.sessions import put_state as put_session_state
from agent_service.storage.turns import events_after, insert_events, insert_messages, insert_steps
from services.database import Prepared
from services.database.leases import LeaseTable

_MESSAGES = (
    sa.select(message.c.sequence, message.c.role, message.c.content, message.c.turn_id)
    .where(
        message.c.session_id == bindparam("session_id"),
        sa.or_(message.c.sequence <= bindparam("head"), message.c.sequence > bindparam("through")),
    )
    .order_by(message.c.sequence)
)
_EARLIER = _MESSAGES.where(message.c.sequence <= bindparam("last"))
_STEPS = sa.select(step).where(step.c.turn_id == bindparam("id")).order_by(step.c.sequence)
_DECISIONS = sa.select(
    approval.c.call_id, approval.c.decision, approval.c.binding, approval.c.answer
).where(approval.c.turn_id == bindparam("id"), approval.c.decision.is_not(None))
_CANCEL_WAITING = (
    sa.update(turn)
    .where(turn.c.id == bindparam("turn_key"), turn.c.cancel_requested)
    .values(state="CANCELLING")
)
_CLOSE_APPROVALS = (
    sa.update(approval)
    .where(approval.c.turn_id == bindparam("turn"), approval.c.decision.is_(None))
    .values(decision=Decision.EXPIRED)
)
_RECALLED = (
    sa.update(message)
    .where(message.c.session_id == bindparam("session_key"), message.c.sequence == bindparam("at"))
    .values(content=bindparam("new_content"))
)
_STEP_STATE = Prepared(
    sa.update(step)
    .where(step.c.turn_id == bindparam("turn_key"), step.c.sequence == bindparam("step_sequence"))
    .values(state=bindparam("new_state"))
)
_TOUCH_SESSION = Prepared(
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(
        message_count=bindparam("count"),
        usage=bindparam("new_usage", type_=session.c.usage.type),
        updated_at=bindparam("now", type_=session.c.updated_at.type),
    )
)


class TurnLimits(Struct, frozen=True):
    """Limits of every turn."""

    max_tokens: int
    approval_timeout: timedelta


class LoadedTurn(Struct, frozen=True):
    """A claimed turn as loaded by its new owner."""

    claimed: ClaimedTurn
    turn: LiveTurn
    recorded: list[events.Recorded]


def load(
    conn: Connection, claimed: ClaimedTurn, limits: TurnLimits, last: LiveTurn | None
) -> LoadedTurn:
    """Load a claimed turn; the conversation is taken from `last` if that is still current."""
    lease, row, begun = claimed.lease, claimed.row, claimed.begun
    steps: Sequence[sa.Row[Any]] = () if begun else conn.execute(_STEPS, {"id": lease.id}).all()
    models = [found for found in steps if found.kind == "MODEL"]
    request: TurnRequest = begun.request if begun else row.request
    before = begun.message_count if begun else row.message_count
    live = LiveTurn(
        request=request,
        platform=row.platform,
        lease=lease,
        max_tokens=limits.max_tokens,
        messages=[],
        revision=begun.revision if begun else row.revision,
        message_count=before + bool(begun and begun.message),
        sequence=row.last_sequence + (len(begun.events) if begun else 0),
        steps=1 if begun else len(steps),
        started_at=row.created_at,
        approval_timeout=limits.approval_timeout,
        usage=row.usage,
        session_usage=row.session_usage - row.usage,
        # A turn that begins may have taken back what was compressed.
        compression=row.compression if row.compression.is_of(before) else NOTHING,
        notices=request.notices,
        model_calls=sum(found.state != "INTENT" for found in models),
    )
    begins = begun is not None or _awaits(steps, SCRIPT_STEP) or _awaits(steps, FILES_STEP)
    live.unread = begins and bool(request.files)
    if begins and request.script:
        live.script = script_of(row, resumed=begun is None and claimed.may_have_run)
    # The revision tells whether messages have been removed since.
    state = begun and (begun.revision, begun.message_count)
    if begun and last is not None and (last.revision, last.message_count) == state:
        opening = [] if begun.message is None else [begun.message]
        live.messages, live.compression = [*last.messages, *opening], last.compression
        live.overlay, live.kept = last.overlay, dict(last.kept)
        live.tokens_per_byte = last.tokens_per_byte
        return LoadedTurn(claimed, live, list(begun.events))
    live.overlay = Overlay.from_state(get_session_state(conn, live.session_id, OVERLAY))
    live.tokens_per_byte = get_session_state(conn, live.session_id, TOKENS_PER_BYTE) or 0.0
    _load_pending(conn, live, steps, resumed=claimed.may_have_run)
    if not live.model_calls:
        # If the turn had begun before, its first message is stored, unless its script has yet to
        # run or its files are yet to be read.
        stored_count = 0 if begun or live.script or live.unread else 1
        live.notices += notices(conn, live.session_id, row.message_count - stored_count)
    live.messages = [
        encoded({"role": "system", "content": row.system_prompt}),
        *_conversation(conn, live),
    ]
    return LoadedTurn(
        claimed, live, list(begun.events) if begun else events_after(conn, lease.id, 0)
    )


def commit(conn: Connection, leases: LeaseTable, transition: Transition) -> None:
    """Store a transition; Fenced if the turn has another owner."""
    live = transition.turn
    values: dict[str, Any] = {
        "state": transition.state,
        "last_sequence": transition.after.sequence,
        "usage": transition.after.usage,
    }
    if transition.after.request is not live.request:
        values["request"] = transition.after.request
    if transition.after.finished is not None:
        leases.release(conn, live.lease, finished_at=transition.now, **values)
        if live.decided or live.under_way:
            conn.execute(_CLOSE_APPROVALS, {"turn": live.id})
    elif transition.after.waits_for_person:
        leases.release(conn, live.lease, **values)
        # A concurrent request to stop must not wait for the person too.
        conn.execute(_CANCEL_WAITING, {"turn_key": live.id})
    else:
        leases.fence(conn, live.lease, **values)
    _STEP_STATE.run_all(
        conn,
        [
            {"turn_key": live.id, "step_sequence": sequence, "new_state": state}
            for sequence, state in transition.step_states
        ],
    )
    insert_steps(conn, live.id, transition.steps)
    insert_messages(conn, live, transition.messages, transition.now)
    if transition.recalled is not None:
        fields = {"session_key": live.session_id, "at": live.message_count}
        conn.execute(_RECALLED, {**fields, "new_content": transition.recalled.decode()})
    if (transition.after.message_count, transition.after.usage) != (live.message_count, live.usage):
        _touch_session(conn, transition)
    if (rate := transition.after.tokens_per_byte) != live.tokens_per_byte:
        put_session_state(conn, live.session_id, TOKENS_PER_BYTE, rate)
    insert_events(conn, live.id, transition.events)
    denials.record(conn, transition)
    if transition.after.waits_for_person:
        approvals.ask(conn, transition)
    if transition.compressed is not None:
        its_row = sa.update(session).where(session.c.id == live.session_id)
        conn.execute(its_row.values(compression=transition.compressed.compression))


def mark_cancelling(conn: Connection, leases: LeaseTable, live: LiveTurn) -> None:
    """Note that the turn's commands are being killed."""
    leases.fence(conn, live.lease, state="CANCELLING")


def _load_pending(
    conn: Connection, live: LiveTurn, steps: Sequence[sa.Row[Any]], *, resumed: bool
) -> None:
    for found in steps:
        if found.kind == "TOOL" and found.state in (StepState.INTENT, StepState.DISPATCHED):
            live.pending[found.key] = PendingCall(
                key=found.key,
                call=found.call,
                sequence=found.sequence,
                message_sequence=found.message_sequence,
                state=StepState(found.state),
                resumed=resumed,
            )
    if live.under_way:
        rows = conn.execute(_DECISIONS, {"id": live.id}).all()
        live.decided = {
            row.call_id: Decided(Decision(row.decision), row.binding, row.answer) for row in rows
        }


def _awaits(steps: Sequence[sa.Row[Any]], kind: str) -> bool:
    return any(found.kind == kind and found.state == StepState.INTENT for found in steps)


def _conversation(conn: Connection, live: LiveTurn) -> list[bytes]:
    """Return the messages as sent; results of the running batch are kept apart."""
    asked = {
        "session_id": live.session_id,
        "head": live.compression.head,
        "through": live.compression.through,
    }
    first_pending = min((p.message_sequence for p in live.pending.values()), default=0)
    rows: list[tuple[int, bytes]] = []
    if live.kind == REVIEW and (ground := reviews.ground_of(conn, live.session_id)) is not None:
        earlier = asked | {"session_id": ground.session_id, "last": ground.through}
        rows += [(row.sequence, row.content.encode()) for row in conn.execute(_EARLIER, earlier)]
    for row in conn.execute(_MESSAGES, asked):
        if row.role == "tool" and row.turn_id == live.id:
            live.result_chars[row.sequence] = len(text_of(json.loads(row.content)["content"]))
        if first_pending and row.role == "tool" and row.sequence > first_pending:
            live.results[row.sequence] = row.content.encode()
        else:
            rows.append((row.sequence, row.content.encode()))
    return apply_compression(rows, live.compression)


def _touch_session(conn: Connection, transition: Transition) -> None:
    live = transition.turn
    _TOUCH_SESSION.run(
        conn,
        {
            "session_key": live.session_id,
            "count": transition.after.message_count,
            "new_usage": live.session_usage + transition.after.usage,
            "now": transition.now,
        },
    )
