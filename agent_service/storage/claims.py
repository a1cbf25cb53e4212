"""Who owns which turn: claimed with an epoch, held by a lease, taken over when that has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.storage.schema import CLAIMABLE_STATES, LIVE_STATES, turn
from agent_service.storage.turns import BY_ID, SESSION, Owner, begin
from services.database.sql import db_now

STUCK_LIMIT = 3
"""A turn whose owner was lost so often without any progress is given to a person."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A turn that was taken over or begun, and is to be driven."""

    turn_id: str
    began: bool
    """It was queued, and its session is free now."""
    is_stuck: bool
    cancel_requested: bool


_RENEW = (
    sa.update(turn)
    .where(turn.c.owner == bindparam("mine"))
    .values(lease_until=db_now(bindparam("lease_s", type_=sa.Double())))
)
_EXPIRE_EARLIER = (
    sa.update(turn)
    .where(turn.c.owner.like(bindparam("instance")), turn.c.owner != bindparam("mine"))
    .values(lease_until=db_now(-1.0))
)
_other = turn.alias("other")
_CLAIMABLE = (
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
_CANCELLED = sa.select(turn.c.id).where(
    turn.c.owner == bindparam("owner"), turn.c.finished_at.is_(None), turn.c.cancel_requested
)
_CLAIM = (
    sa.update(turn)
    .where(
        turn.c.id == bindparam("turn_key"),
        turn.c.epoch == bindparam("seen_epoch"),
        sa.or_(turn.c.owner.is_(None), turn.c.lease_until < db_now()),
    )
    .values(
        owner=bindparam("new_owner"),
        owner_endpoint=bindparam("new_endpoint"),
        lease_until=db_now(bindparam("lease_s", type_=sa.Double())),
        epoch=turn.c.epoch + 1,
        version=turn.c.version + 1,
        state=bindparam("new_state"),
        last_sequence=bindparam("new_last_sequence"),
        attempt=bindparam("new_attempt"),
        stuck_at=bindparam("new_stuck_at"),
        stuck_count=bindparam("new_stuck_count"),
    )
)


def claimable(conn: Connection, most: int) -> Sequence[str]:
    """Turns without a living owner, and queued ones whose session is free."""
    return conn.execute(_CLAIMABLE, {"most": most}).scalars().all()


def cancelled(conn: Connection, owner: str) -> Sequence[str]:
    """The owner's turns that were asked to stop."""
    return conn.execute(_CANCELLED, {"owner": owner}).scalars().all()


def claim(conn: Connection, turn_id: str, owner: Owner, now: datetime) -> Claimed | None:
    """Take a turn over, or begin a queued one; None when somebody else was faster."""
    row = conn.execute(BY_ID, {"id": turn_id}).mappings().one()
    begins = row["state"] == "QUEUED"
    was_lost = row["owner"] is not None
    stuck_count = 0
    if was_lost:
        stuck_count = row["stuck_count"] + 1 if row["stuck_at"] == row["last_sequence"] else 1
    changed = conn.execute(
        _CLAIM,
        {
            "turn_key": turn_id,
            "seen_epoch": row["epoch"],
            "new_owner": owner.name,
            "new_endpoint": owner.endpoint,
            "lease_s": owner.lease.total_seconds(),
            "new_state": "RUNNING" if begins or row["state"] == "QUEUED_RESUME" else row["state"],
            "new_last_sequence": row["last_sequence"] + begins,
            "new_attempt": row["attempt"] + was_lost,
            "new_stuck_at": row["last_sequence"],
            "new_stuck_count": stuck_count,
        },
    ).rowcount
    if not changed:
        return None
    if begins:
        count = conn.execute(SESSION, {"id": row["session_id"]}).one().message_count
        begin(conn, {**row, "epoch": row["epoch"] + 1}, count, now)
    return Claimed(turn_id, begins, stuck_count >= STUCK_LIMIT, row["cancel_requested"])


def renew(conn: Connection, owner: Owner) -> int:
    """Prolong the leases of all turns of the owner; returns how many there are."""
    values = {"mine": owner.name, "lease_s": owner.lease.total_seconds()}
    return conn.execute(_RENEW, values).rowcount


def expire_earlier_boots(conn: Connection, owner: Owner) -> int:
    """End the leases that this instance held before it was started anew."""
    values = {"mine": owner.name, "instance": f"{owner.instance}/%"}
    return conn.execute(_EXPIRE_EARLIER, values).rowcount
