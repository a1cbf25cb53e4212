"""Statements by which schedulers divide the items of batches among themselves and record them.

Items are held by leases as runs are. An item is recorded in one transaction with the sums of its
batch, under its lease, so that it counts once however often a scheduler dies.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import json
from msgspec.structs import asdict

from scheduler_service.batch_records import (
    Batch,
    BatchPrompt,
    BatchState,
    ItemClaim,
    ItemResult,
    ItemState,
    Usage,
)
from scheduler_service.storage.batches import SHOWN, batch_of, is_held, stop
from scheduler_service.storage.claims import RUN_LEASE_S, Holder
from scheduler_service.storage.schema import USAGE, batch, batch_item, pending_item
from services.database import Prepared, UtcTime, db_now
from services.database.leases import LeaseTable
from services.validation import decode

_ACTIVE = SHOWN.where(sa.text("batch.state IN ('RUNNING', 'WAITING')")).order_by(batch.c.id)
_LOCKED = sa.select(batch.c.state).where(batch.c.id == sa.bindparam("batch_id")).with_for_update()
_HELD_COUNT = sa.select(sa.func.count()).where(
    batch_item.c.batch_id == sa.bindparam("batch_id"), is_held
)
_FREE = sa.or_(batch_item.c.owner.is_(None), batch_item.c.lease_until < db_now())
_UNHELD = (
    sa.select(batch_item.c.id)
    .where(batch_item.c.batch_id == sa.bindparam("batch_id"), pending_item, _FREE)
    .order_by(batch_item.c.position)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_BEGIN = (
    sa.update(batch_item)
    .where(batch_item.c.id.in_(sa.bindparam("item_ids", expanding=True)))
    .values(started_at=sa.bindparam("now", type_=UtcTime()))
    .returning(batch_item.c.id, batch_item.c.prompt, batch_item.c.attempt)
)
_ANY_PENDING = (
    sa.select(batch_item.c.id)
    .where(batch_item.c.batch_id == sa.bindparam("batch_id"), pending_item)
    .limit(1)
)
_SUMS = ("done_count", "failed_count", "success_count", *USAGE)


def _more(name: str) -> Any:
    return batch.c[name] + sa.bindparam(f"more_{name}", type_=sa.BigInteger())


_ADD = Prepared(
    sa.update(batch)
    .where(batch.c.id == sa.bindparam("batch_id"))
    .values({name: _more(name) for name in _SUMS})
)
_NO_WAITS = Prepared(
    sa.update(batch)
    .where(batch.c.id == sa.bindparam("batch_id"), batch.c.waits > 0)
    .values(waits=0)
)


def item_leases(ttl_s: float = RUN_LEASE_S) -> LeaseTable:
    """Return the leases of items."""
    return LeaseTable(batch_item, claimable=pending_item, ttl_s=ttl_s)


def active(connection: sa.Connection) -> list[Batch]:
    """Return the batches that run or wait."""
    return list(map(batch_of, connection.execute(_ACTIVE)))


def wake(connection: sa.Connection, batch_id: str) -> None:
    """Let a batch go on that has waited."""
    waits = sa.update(batch).where(batch.c.id == batch_id, batch.c.state == BatchState.WAITING)
    connection.execute(waits.values(state=BatchState.RUNNING, reason="", resume_at=None))


def take(
    connection: sa.Connection, of_batch: Batch, holder: Holder, now: datetime
) -> Sequence[ItemClaim]:
    """Claim as many items as the batch has workers left; ends it if it has no items left.

    Locks the batch, so that all schedulers together keep to its workers.
    """
    which = {"batch_id": of_batch.id}
    if connection.execute(_LOCKED, which).scalar() != BatchState.RUNNING:
        return ()
    room = of_batch.options.worker_count - connection.execute(_HELD_COUNT, which).scalar_one()
    if room <= 0:
        return ()
    ids = connection.execute(_UNHELD, {**which, "limit": room}).scalars().all()
    if not ids:
        if connection.execute(_ANY_PENDING, which).first() is None:
            stop(connection, of_batch.id, "", BatchState.COMPLETED)
            done = sa.update(batch).where(batch.c.id == of_batch.id)
            connection.execute(done.values(finished_at=now))
        return ()
    leases = holder.leases.claim_these(connection, holder.owner, ids)
    by_id = {lease.id: lease for lease in leases}
    begun = connection.execute(_BEGIN, {"item_ids": list(by_id), "now": now})
    return [
        ItemClaim(of_batch, by_id[row.id], decode(row.prompt, BatchPrompt), row.attempt)
        for row in begun
    ]


def record(
    connection: sa.Connection,
    leases: LeaseTable,
    claim: ItemClaim,
    state: ItemState,
    result: ItemResult,
    now: datetime,
) -> None:
    """Record an item that has ended; raises Fenced if another scheduler has taken it over."""
    encoded = json.encode(result).decode()
    leases.release(connection, claim.lease, state=state, result=encoded, finished_at=now)
    is_answered = state is ItemState.COMPLETED
    is_success = is_answered if not claim.prompt.check.strip() else result.score == 1
    counts = {
        "done_count": 1,
        "failed_count": int(state is ItemState.FAILED),
        "success_count": int(is_success),
    }
    _add(connection, claim.batch.id, counts, result.usage)
    if state is not ItemState.FAILED:
        _NO_WAITS.run(connection, {"batch_id": claim.batch.id})


def retry(connection: sa.Connection, leases: LeaseTable, claim: ItemClaim, spent: Usage) -> None:
    """Leave an item to a new attempt; raises Fenced."""
    leases.release(connection, claim.lease, attempt=claim.attempt + 1)
    _add(connection, claim.batch.id, {}, spent)


def wait(connection: sa.Connection, batch_id: str, until: datetime, reason: str) -> None:
    """Let a batch wait that runs."""
    runs = sa.update(batch).where(batch.c.id == batch_id, batch.c.state == BatchState.RUNNING)
    waits = {"state": BatchState.WAITING, "resume_at": until, "waits": batch.c.waits + 1}
    connection.execute(runs.values(**waits, reason=reason))


def waits(connection: sa.Connection, batch_id: str) -> int:
    """Return how often in a row a batch has waited."""
    query = sa.select(batch.c.waits).where(batch.c.id == batch_id)
    return connection.execute(query).scalar() or 0


def _add(connection: sa.Connection, batch_id: str, counts: dict[str, int], used: Usage) -> None:
    more = dict.fromkeys(_SUMS, 0) | counts | asdict(used)
    values = {f"more_{name}": more[name] for name in _SUMS}
    _ADD.run(connection, {"batch_id": batch_id, **values})
