"""Statements by which schedulers divide the items of batches among themselves and record them.

Items are held by leases as runs are. An item is recorded in one transaction with the sums of its
batch, under its lease, so that it counts once however often a scheduler dies.
"""

from collections.abc import Sequence
from datetime import datetime

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
from scheduler_service.storage.schema import batch, batch_item, pending_item
from services.database import db_now
from services.database.leases import LeaseTable
from services.validation import decode

_ACTIVE = SHOWN.where(sa.text("batch.state IN ('RUNNING', 'WAITING')")).order_by(batch.c.id)
_FREE = sa.or_(batch_item.c.owner.is_(None), batch_item.c.lease_until < db_now())


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
    state = sa.select(batch.c.state).where(batch.c.id == of_batch.id).with_for_update()
    if connection.execute(state).scalar() != BatchState.RUNNING:
        return ()
    of_item = batch_item.c.batch_id == of_batch.id
    held = connection.execute(sa.select(sa.func.count()).where(of_item, is_held)).scalar_one()
    room = of_batch.options.worker_count - held
    if room <= 0:
        return ()
    pending = sa.select(batch_item.c.id).where(of_item, pending_item)
    unheld = pending.where(_FREE).order_by(batch_item.c.position).limit(room)
    ids = connection.execute(unheld.with_for_update(skip_locked=True)).scalars().all()
    if not ids:
        if connection.execute(pending.limit(1)).first() is None:
            stop(connection, of_batch.id, "", BatchState.COMPLETED)
            done = sa.update(batch).where(batch.c.id == of_batch.id)
            connection.execute(done.values(finished_at=now))
        return ()
    leases = holder.leases.claim_these(connection, holder.owner, ids)
    by_id = {lease.id: lease for lease in leases}
    begin = sa.update(batch_item).where(batch_item.c.id.in_(by_id)).values(started_at=now)
    columns = (batch_item.c.id, batch_item.c.prompt, batch_item.c.attempt)
    return [
        ItemClaim(of_batch, by_id[row.id], decode(row.prompt, BatchPrompt), row.attempt)
        for row in connection.execute(begin.returning(*columns))
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
        waited = sa.update(batch).where(batch.c.id == claim.batch.id, batch.c.waits > 0)
        connection.execute(waited.values(waits=0))


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
    more = counts | asdict(used)
    values = {name: batch.c[name] + count for name, count in more.items()}
    connection.execute(sa.update(batch).where(batch.c.id == batch_id).values(values))
