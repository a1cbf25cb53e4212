"""Changes of memories, stored before they are made, so that none is lost or made twice."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.storage.schema import memory_change
from services.database import upsert
from services.errors import NotFound


class MemoryChange(Struct, frozen=True):
    """A change of one memory from one text to another."""

    key: str
    profile: str
    target: str
    turn_id: str
    by: str
    before: str
    after: str
    made: bool
    created_at: datetime


_COLUMNS = MemoryChange.__struct_fields__


def find(conn: Connection, key: str) -> MemoryChange | None:
    """Return the change with this key, if any."""
    row = conn.execute(sa.select(memory_change).where(memory_change.c.key == key)).one_or_none()
    return None if row is None else _change(row)


def get(conn: Connection, profile: str, key: str) -> MemoryChange:
    """Return a profile's change; NotFound if there is none."""
    found = find(conn, key)
    if found is None or found.profile != profile:
        raise NotFound(f"there is no change {key}")
    return found


def intend(conn: Connection, change: MemoryChange) -> None:
    """Store a planned change, replacing an earlier plan of the same key."""
    values = {name: getattr(change, name) for name in _COLUMNS}
    conn.execute(upsert(memory_change, ["key"], ["before", "after", "made"]), values)


def mark_made(conn: Connection, key: str) -> None:
    """Note that a change was made."""
    conn.execute(sa.update(memory_change).where(memory_change.c.key == key).values(made=True))


def latest(conn: Connection, profile: str, most: int) -> Sequence[MemoryChange]:
    """Return the latest changes, newest first."""
    query = (
        sa.select(memory_change)
        .where(memory_change.c.profile == profile, memory_change.c.made)
        .order_by(memory_change.c.created_at.desc(), memory_change.c.key.desc())
        .limit(most)
    )
    return [_change(row) for row in conn.execute(query)]


def of_turn(conn: Connection, profile: str, turn_id: str) -> Sequence[MemoryChange]:
    """Return the changes that a turn made, oldest first."""
    query = (
        sa.select(memory_change)
        .where(
            memory_change.c.profile == profile,
            memory_change.c.turn_id == turn_id,
            memory_change.c.made,
        )
        .order_by(memory_change.c.created_at, memory_change.c.key)
    )
    return [_change(row) for row in conn.execute(query)]


def _change(row: sa.Row[Any]) -> MemoryChange:
    return MemoryChange(**{name: getattr(row, name) for name in _COLUMNS})
