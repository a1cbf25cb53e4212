"""Ownership of turns: begun or taken over with an epoch, and held by a lease."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records import events
from agent_service.records.calls import SCRIPT, PendingCall, PendingScript
from agent_service.records.model import ToolCall
from agent_service.records.requests import COMPRESS, NOTICE, REVIEW, SUBAGENT, Script, TurnRequest
from agent_service.records.sent_history import user_message
from agent_service.records.transition import NewStep, new_message
from agent_service.security import url_provenance
from agent_service.storage import denials, reviews, sessions, undo
from agent_service.storage.denials import unanswered
from agent_service.storage.schema import CLAIMABLE_STATES, LIVE_STATES, session, turn
from agent_service.storage.sessions import TAINT
from agent_service.storage.turns import insert_events, insert_messages, insert_steps
from services.database import Prepared, db_now, is_one_of
from services.database.leases import Lease, LeaseTable, Owner

_TOUCH_SESSION = Prepared(
    sa.update(session)
    .where(session.c.id == bindparam("session_key"))
    .values(message_count=bindparam("count"), updated_at=bindparam("now"))
)

SCRIPT_STEP = "SCRIPT"
FILES_STEP = "FILES"


class StoredTurn(Struct, frozen=True):
    """What the beginning of a turn has stored, so that it is not read again."""

    message: bytes | None
    """The encoded user message; None if the turn has none."""
    events: Sequence[events.Recorded]
    message_count: int
    """Messages of the session before that one."""
    revision: int
    request: TurnRequest
    """The current request: more commands may have been denied to it."""


def begin(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> StoredTurn:
    """Append the user's message and record the intent of the first model call.

    A script, or files of the message, come first: the message is stored after them.
    """
    if untrusted := turn.request.untrusted:
        sessions.add_texts(conn, turn.session_id, TAINT, untrusted)
    if turn.kind not in (SUBAGENT, NOTICE, REVIEW):
        sessions.add_links(conn, turn.session_id, url_provenance.keys_in(turn.request.text))
    count, revision = turn.message_count, turn.revision
    if turn.request.script or turn.request.files:
        return _begin_ahead(conn, turn, epoch, now)
    message, said_again = user_message(turn.request.text, now), ()
    if turn.request.retries:
        again = undo.retry(conn, turn, now)
        message = user_message(again.content, now)
        count, revision = again.message_count, again.revision
        said_again = denials.of_turn(conn, again.turn_id)
    request = denials.begin(conn, turn, said_again)
    said = None if turn.kind == COMPRESS else _say(conn, turn, count + 1, message, now)
    insert_steps(conn, turn.id, [NewStep("MODEL", 1, count + (1 if said is None else 2))])
    what = events.TurnStarted(turn.session_id, turn.request.options.model)
    started = (events.Recorded(1, now, epoch, what),)
    insert_events(conn, turn.id, started)
    return StoredTurn(said, started, count, revision, request)


def first_events(turn: sa.Row[Any]) -> int:
    """Return the number of events that the beginning of a turn stores."""
    return 2 if turn.request.script else 1


def script_of(turn: sa.Row[Any], *, resumed: bool = False) -> PendingScript:
    """Return the script that a turn begins with."""
    script: Script = turn.request.script
    call = ToolCall(SCRIPT, SCRIPT, json.dumps({"command": script.text}, ensure_ascii=False))
    pending = PendingCall(f"{turn.id}:1", call, 1, 0, resumed=resumed)
    return PendingScript(pending, script, turn.request.text)


def _begin_ahead(conn: Connection, turn: sa.Row[Any], epoch: int, now: datetime) -> StoredTurn:
    """Record the intent of what comes before the message: its script, or reading its files."""
    happened: list[events.Durable] = [
        events.TurnStarted(turn.session_id, turn.request.options.model)
    ]
    if turn.request.script:
        call = script_of(turn).call
        step = NewStep(SCRIPT_STEP, 1, call.message_sequence, call)
        happened.append(events.ToolStarted(call.key, SCRIPT, call.call.arguments_json, 1))
    else:
        step = NewStep(FILES_STEP, 1, turn.message_count + 1)
    insert_steps(conn, turn.id, [step])
    started = tuple(events.Recorded(n, now, epoch, each) for n, each in enumerate(happened, 1))
    insert_events(conn, turn.id, started)
    request = denials.begin(conn, turn)
    return StoredTurn(None, started, turn.message_count, turn.revision, request)


def _say(
    conn: Connection, turn: sa.Row[Any], position: int, said: Mapping[str, Any], now: datetime
) -> bytes:
    new = new_message(position, said)
    insert_messages(conn, turn, [new], now)
    _TOUCH_SESSION.run(conn, {"session_key": turn.session_id, "count": position, "now": now})
    return new.content


STUCK_LIMIT = 3
"""A turn that lost this many owners in a row without progress needs a person."""

_ROW = Prepared(
    sa.select(
        turn,
        session.c.system_prompt,
        session.c.message_count,
        session.c.revision,
        session.c.compression,
        session.c.platform,
        session.c.usage.label("session_usage"),
        unanswered,
    )
    .join_from(turn, session)
    .where(turn.c.id == bindparam("id"))
    # Lock the session too: the former owner may just have changed it in its transaction.
    .with_for_update(of=[turn, session], key_share=True)
)
_other = turn.alias("other")
_is_review = turn.c.kind == sa.literal_column(f"'{REVIEW}'")
_unowned = (
    is_one_of(turn.c.state, CLAIMABLE_STATES),
    sa.or_(turn.c.owner.is_(None), turn.c.lease_until < db_now()),
)
_FREE = (
    sa.select(turn.c.id)
    .where(*_unowned, ~_is_review)
    .union_all(
        sa.select(turn.c.id).where(
            turn.c.state == "QUEUED",
            ~_is_review,
            ~sa.exists().where(
                _other.c.session_id == turn.c.session_id,
                sa.or_(
                    is_one_of(_other.c.state, LIVE_STATES),
                    sa.and_(
                        _other.c.state == "QUEUED",
                        sa.tuple_(_other.c.created_at, _other.c.id)
                        < sa.tuple_(turn.c.created_at, turn.c.id),
                    ),
                ),
            ),
        )
    )
    .limit(bindparam("most"))
)
_FREE_REVIEWS = (
    sa.select(turn.c.id)
    .where(_is_review, sa.or_(turn.c.state == "QUEUED", sa.and_(*_unowned)))
    .order_by(turn.c.created_at, turn.c.id)
    .limit(bindparam("most"))
)
"""These run alone in their sessions."""
_WAITING_SESSIONS = sa.select(turn.c.session_id).where(turn.c.state == "QUEUED").distinct()
_CANCELLED = sa.select(turn.c.id).where(
    turn.c.owner == bindparam("mine"), turn.c.finished_at.is_(None), turn.c.cancel_requested
)


class Claimant(Struct, frozen=True):
    """The identity and address of a replica that claims turns."""

    owner: Owner
    endpoint: str
    leases: LeaseTable


class ClaimedTurn(Struct, frozen=True):
    """A turn that was begun or taken over, and must now be run."""

    lease: Lease
    row: sa.Row[Any]
    """The turn and its session before the claim."""
    begun: StoredTurn | None
    """Set if it was queued and has now begun."""
    stuck_count: int
    """How often in a row an owner was lost without progress."""
    has_ground: bool = True
    """False for a review whose subject is gone or was taken back."""

    @property
    def cancel_requested(self) -> bool:
        return self.row.cancel_requested or not self.has_ground

    @property
    def may_have_run(self) -> bool:
        """Whether an earlier owner may have started pending calls (decisions do not count)."""
        return self.row.state != "QUEUED_RESUME"

    @property
    def is_stuck(self) -> bool:
        return self.stuck_count >= STUCK_LIMIT


def turn_leases(ttl_s: float) -> LeaseTable:
    """Return the leases of turns; they expire after `ttl_s` without renewal."""
    claimable = is_one_of(turn.c.state, (*CLAIMABLE_STATES, "QUEUED"))
    return LeaseTable(turn, claimable=claimable, ttl_s=ttl_s)


def free(conn: Connection, most: int, most_reviews: int) -> Sequence[str]:
    """Return turns without a living owner, queued turns of free sessions, and some reviews."""
    found = conn.execute(_FREE, {"most": most}).scalars().all()
    reviews = conn.execute(_FREE_REVIEWS, {"most": max(0, most_reviews)}).scalars().all()
    return [*found, *reviews]


def waiting_sessions(conn: Connection) -> Sequence[str]:
    """Return the sessions that have queued turns."""
    return conn.execute(_WAITING_SESSIONS).scalars().all()


def cancelled(conn: Connection, claimant: Claimant) -> Sequence[str]:
    """Return the claimant's turns that are to stop."""
    return conn.execute(_CANCELLED, {"mine": str(claimant.owner)}).scalars().all()


def claim(conn: Connection, turn_id: str, claimant: Claimant, now: datetime) -> ClaimedTurn | None:
    """Take over a turn or begin a queued one; None if another replica was faster."""
    row = _ROW.rows(conn, {"id": turn_id}).one()
    was_lost, begins = row.owner is not None, row.state == "QUEUED"
    stuck_again = was_lost and row.stuck_at == row.last_sequence
    stuck_count = row.stuck_count + 1 if stuck_again else int(was_lost)
    lease = claimant.leases.claim(
        conn,
        turn_id,
        claimant.owner,
        owner_endpoint=claimant.endpoint,
        state="RUNNING" if row.state in ("QUEUED", "QUEUED_RESUME") else row.state,
        last_sequence=row.last_sequence + (first_events(row) if begins else 0),
        attempt=row.attempt + was_lost,
        stuck_at=row.last_sequence,
        stuck_count=stuck_count,
    )
    if lease is None:
        return None
    begun = begin(conn, row, lease.epoch, now) if begins else None
    has_ground = row.kind != REVIEW or reviews.ground_of(conn, row.session_id) is not None
    return ClaimedTurn(lease, row, begun, stuck_count, has_ground)
