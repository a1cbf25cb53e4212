"""Statements over batches and their items; each runs in an open transaction."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import json
from msgspec.structs import asdict

from scheduler_service.batch_records import (
    Batch,
    BatchItem,
    BatchOptions,
    BatchPrompt,
    BatchState,
    ItemResult,
    ItemState,
    Usage,
    item_id_of,
)
from scheduler_service.storage.schema import USAGE, batch, batch_item, pending_item
from services.database import db_now, insert_ignore
from services.errors import AlreadyExists, FailedPrecondition, NotFound
from services.validation import decode

CHANNEL = "batches"
"""Tells the workers of all replicas that batches changed."""

PAGE_BYTES = 2 * 1024 * 1024
_LEFT_AFTER = timedelta(hours=1)
"""An upload that has not ended by then was broken off."""

is_held = sa.and_(
    pending_item, batch_item.c.owner.is_not(None), batch_item.c.lease_until >= db_now()
)
_RUNNING = (
    sa.select(sa.func.count())
    .where(batch_item.c.batch_id == batch.c.id, is_held)
    .scalar_subquery()
    .label("running_count")
)
_CHANGEABLE = ("worker_count", "budget_micro_usd")
"""Options that a batch may get others of."""
SHOWN = sa.select(batch, _RUNNING).where(batch.c.state != BatchState.UPLOADING)
_ITEMS_OF = batch_item.c.batch_id == sa.bindparam("of_batch")


def batch_of(row: sa.Row[Any]) -> Batch:
    """Return a batch from a row of `SHOWN`."""
    return Batch(
        id=row.id,
        profile=row.profile,
        name=row.name,
        digest=row.digest,
        state=BatchState(row.state),
        options=decode(row.options, BatchOptions),
        created_at=row.created_at,
        item_count=row.item_count,
        reason=row.reason,
        finished_at=row.finished_at,
        resume_at=row.resume_at,
        running_count=row.running_count,
        done_count=row.done_count,
        failed_count=row.failed_count,
        success_count=row.success_count,
        usage=Usage(**{name: getattr(row, name) for name in USAGE}),
    )


def find(connection: sa.Connection, profile: str, name: str) -> Batch | None:
    """Return a batch by its name."""
    query = SHOWN.where(batch.c.profile == profile, batch.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else batch_of(row)


def get(connection: sa.Connection, profile: str, name: str) -> Batch:
    """Return a batch by its name; raises NotFound."""
    found = find(connection, profile, name)
    if found is None:
        raise NotFound(f"there is no batch {name}")
    return found


def list_newest(connection: sa.Connection, profile: str, limit: int) -> list[Batch]:
    """Return a profile's batches, newest first."""
    query = SHOWN.where(batch.c.profile == profile)
    newest = query.order_by(batch.c.created_at.desc(), batch.c.id.desc()).limit(limit)
    return list(map(batch_of, connection.execute(newest)))


def begin(connection: sa.Connection, new: Batch) -> Batch:
    """Begin to store a batch, unless it is there; raises AlreadyExists for another of the name."""
    found = find(connection, new.profile, new.name)
    if found is not None:
        return _same(found, new)
    old = sa.select(batch.c.id).where(
        batch.c.state == BatchState.UPLOADING, batch.c.created_at < new.created_at - _LEFT_AFTER
    )
    for batch_id in connection.scalars(old).all():
        _delete(connection, batch_id)
    zeros = dict.fromkeys(("waits", "done_count", "failed_count", "success_count", *USAGE), 0)
    row = {
        "id": new.id,
        "profile": new.profile,
        "name": new.name,
        "state": new.state,
        "digest": new.digest,
        "options": json.encode(new.options).decode(),
        "reason": "",
        "created_at": new.created_at,
        "item_count": new.item_count,
    }
    connection.execute(sa.insert(batch).values(zeros | row))
    return new


def add_items(
    connection: sa.Connection, batch_id: str, after: int, prompts: Sequence[BatchPrompt]
) -> None:
    """Store items that come after a position; an id that is there twice raises AlreadyExists."""
    rows = [
        {
            "id": item_id_of(batch_id, position),
            "batch_id": batch_id,
            "position": position,
            "item_id": prompt.item_id,
            "state": ItemState.PENDING,
            "epoch": 0,
            "version": 0,
            "attempt": 1,
            "prompt": json.encode(prompt).decode(),
        }
        for position, prompt in enumerate(prompts, after + 1)
    ]
    added = connection.execute(insert_ignore(batch_item).returning(batch_item.c.id), rows)
    stored = len(added.all())
    if stored < len(rows):
        raise AlreadyExists("two items of the batch have the same id")


def finish_upload(connection: sa.Connection, new: Batch) -> Batch:
    """Let the batch run; raises AlreadyExists if another has got its name meanwhile."""
    found = find(connection, new.profile, new.name)
    if found is not None:
        _delete(connection, new.id)
        return _same(found, new)
    change = sa.update(batch).where(batch.c.id == new.id)
    connection.execute(change.values(state=BatchState.RUNNING))
    return get(connection, new.profile, new.name)


def discard(connection: sa.Connection, batch_id: str) -> None:
    """Remove an upload that failed."""
    _delete(connection, batch_id)


def stop(
    connection: sa.Connection, batch_id: str, reason: str, state: BatchState = BatchState.STOPPED
) -> None:
    """Let no more items of a batch begin."""
    runs = batch.c.state.in_((BatchState.RUNNING, BatchState.WAITING))
    change = sa.update(batch).where(batch.c.id == batch_id, runs)
    connection.execute(change.values(state=state, reason=reason, resume_at=None))


def resume(
    connection: sa.Connection, before: Batch, options: BatchOptions, *, retries_failed: bool
) -> Batch:
    """Let a batch go on; what it has cost must be below its budget."""
    of_batch = sa.update(batch).where(batch.c.id == before.id)
    reopened = 0
    if retries_failed:
        again = sa.update(batch_item).where(
            batch_item.c.batch_id == before.id, batch_item.c.state == ItemState.FAILED
        )
        reopened = connection.execute(
            again.values(
                state=ItemState.PENDING,
                attempt=batch_item.c.attempt + 1,
                result=None,
                started_at=None,
                finished_at=None,
            ).execution_options(preserve_rowcount=True)
        ).rowcount
    values: dict[str, Any] = {
        "options": json.encode(options).decode(),
        "done_count": batch.c.done_count - reopened,
        "failed_count": batch.c.failed_count - reopened,
    }
    if before.state is not BatchState.COMPLETED or reopened:
        values |= {"state": BatchState.RUNNING, "reason": "", "resume_at": None, "waits": 0}
        values["finished_at"] = None
    connection.execute(of_batch.values(values))
    return get(connection, before.profile, before.name)


def delete(connection: sa.Connection, profile: str, name: str) -> None:
    """Remove a batch; raises NotFound, or FailedPrecondition while it runs."""
    found = get(connection, profile, name)
    is_active = found.state in (BatchState.RUNNING, BatchState.WAITING)
    if is_active or found.running_count:
        raise FailedPrecondition(
            f"batch {name} runs; stop it, and wait until the items under way have ended"
        )
    _delete(connection, found.id)


def list_items(
    connection: sa.Connection, batch_id: str, after: int, limit: int, *, ended_only: bool
) -> tuple[list[BatchItem], int]:
    """Return items after a position and the position of the last; 0 if there are no more."""
    held = sa.case((is_held, 1), else_=0).label("is_held")
    query = sa.select(batch_item, held).where(_ITEMS_OF, batch_item.c.position > after)
    if ended_only:
        query = query.where(~pending_item)
    ordered = query.order_by(batch_item.c.position).limit(limit + 1)
    found, size_bytes = list[BatchItem](), 0
    for row in connection.execute(ordered, {"of_batch": batch_id}):
        size_bytes += len(row.prompt) + len(row.result or "")
        if len(found) == limit or (found and size_bytes > PAGE_BYTES):
            return found, found[-1].position
        found.append(_item_of(row))
    return found, 0


def _item_of(row: sa.Row[Any]) -> BatchItem:
    return BatchItem(
        position=row.position,
        batch_id=row.batch_id,
        prompt=decode(row.prompt, BatchPrompt),
        state=ItemState(row.state),
        attempt=row.attempt,
        is_running=bool(row.is_held),
        started_at=row.started_at,
        finished_at=row.finished_at,
        result=None if row.result is None else decode(row.result, ItemResult),
    )


def _same(found: Batch, new: Batch) -> Batch:
    if found.digest == new.digest:
        return found
    other = [
        name.replace("_", " ")
        for name, value in asdict(found.options).items()
        if name not in _CHANGEABLE and value != getattr(new.options, name)
    ]
    raise AlreadyExists(
        f"there is a batch {new.name} with another {' and '.join(other) or 'data set'}; "
        "choose another name, or remove that batch"
    )


def _delete(connection: sa.Connection, batch_id: str) -> None:
    connection.execute(sa.delete(batch_item).where(_ITEMS_OF), {"of_batch": batch_id})
    connection.execute(sa.delete(batch).where(batch.c.id == batch_id))
