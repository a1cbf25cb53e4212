"""Who owns which turn: claimed with an epoch, held by a lease, taken over when that has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.storage.begin import begin
from agent_service.storage.schema import CLAIMABLE_STATES, LIVE_STATES, turn
from services.database import db_now
from services.leases import Lease, LeaseTable, Owner, was_lost

STUCK_LIMIT = 3
"""A turn whose owner was lost so often without any progress is given to a person."""

_stuck_again = sa.and_(turn.c.owner.is_not(None), turn.c.stuck_at == turn.c.last_sequence)
_runs = turn.c.state.in_(("QUEUED", "QUEUED_RESUME"))
_begins = sa.case((turn.c.state == "QUEUED", 1), else_=0)
_ON_CLAIM: dict[str, sa.ColumnElement[object]] = {
    "state": sa.case(
        (turn.c.state.in_(("QUEUED", "QUEUED_RESUME")), "RUNNING"), else_=turn.c.state
    ),
    "last_sequence": turn.c.last_sequence + _begins,
    "attempt": turn.c.attempt + was_lost(turn),
    "stuck_at": turn.c.last_sequence,
    "stuck_count": sa.case((_stuck_again, turn.c.stuck_count + 1), else_=was_lost(turn)),
}
_BY_ID = sa.select(turn).where(turn.c.id == bindparam("id"))
_other = turn.alias("other")
_FREE = (
    sa.select(turn.c.id)
    .where(
        turn.c.state.in_(CLAIMABLE_STATES),
        sa.or_(turn.c.owner.is_(None), turn.c.lease_until < db_now()),
    )
    .union_all(
        sa.select(turn.c.id).where(
            turn.c.state == "QUEUED",
            ~sa.exists().where(
                _other.c.session_id == turn.c.session_id,
                sa.or_(
                    _other.c.state.in_(LIVE_STATES),
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
_WAITING_SESSIONS = sa.select(turn.c.session_id).where(turn.c.state == "QUEUED").distinct()
_STATE = sa.select(turn.c.state).where(turn.c.id == bindparam("id"))
_CANCELLED = sa.select(turn.c.id).where(
    turn.c.owner == bindparam("mine"), turn.c.finished_at.is_(None), turn.c.cancel_requested
)


@dataclass(frozen=True, slots=True)
class Claimant:
    """As whom a replica claims turns, and where other replicas reach it."""

    owner: Owner
    endpoint: str
    leases: LeaseTable


@dataclass(frozen=True, slots=True)
class Claimed:
    """A turn that was taken over or begun, and is to be driven."""

    lease: Lease
    began: bool
    """It was queued, and its session is free now."""
    stuck_count: int
    """How often in a row an owner was lost without any progress."""
    cancel_requested: bool
    may_have_run: bool
    """Its pending calls may have been begun by an earlier owner; a person's decision is not one."""

    @property
    def is_stuck(self) -> bool:
        """Whether a person has to look at it."""
        return self.stuck_count >= STUCK_LIMIT


def turn_leases(ttl_s: float) -> LeaseTable:
    """The leases of turns, which last so many seconds without renewal."""
    claimable = turn.c.state.in_((*CLAIMABLE_STATES, "QUEUED"))
    return LeaseTable(turn, claimable=claimable, on_claim=_ON_CLAIM, ttl_s=ttl_s)


def free(conn: Connection, most: int) -> Sequence[str]:
    """Turns without a living owner, and queued ones whose session is free."""
    return conn.execute(_FREE, {"most": most}).scalars().all()


def waiting_sessions(conn: Connection) -> Sequence[str]:
    """The sessions that have queued turns."""
    return conn.execute(_WAITING_SESSIONS).scalars().all()


def cancelled(conn: Connection, claimant: Claimant) -> Sequence[str]:
    """The claimant's turns that were asked to stop."""
    return conn.execute(_CANCELLED, {"mine": str(claimant.owner)}).scalars().all()


def claim(conn: Connection, turn_id: str, claimant: Claimant, now: datetime) -> Claimed | None:
    """Take a turn over, or begin a queued one; None when somebody else was faster."""
    state = conn.execute(_STATE, {"id": turn_id}).scalar_one()
    lease = claimant.leases.claim(conn, turn_id, claimant.owner, owner_endpoint=claimant.endpoint)
    if lease is None:
        return None
    row = conn.execute(_BY_ID, {"id": turn_id}).one()
    began = row.last_sequence == 1 and row.epoch == 1
    if began:
        begin(conn, row, now)
    return Claimed(lease, began, row.stuck_count, row.cancel_requested, state != "QUEUED_RESUME")
