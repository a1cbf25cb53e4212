"""The changes of memories: each stored before it is made, so that none is lost or made twice."""

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
    """A change of one memory, from one text to another."""

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
    """The change that was asked for by this key, if there was one."""
    row = conn.execute(sa.select(memory_change).where(memory_change.c.key == key)).one_or_none()
    return None if row is None else _change(row)


def get(conn: Connection, profile: str, key: str) -> MemoryChange:
    """A change of a profile; NotFound when there is none."""
    found = find(conn, key)
    if found is None or found.profile != profile:
        raise NotFound(f"there is no change {key}")
    return found


def intend(conn: Connection, change: MemoryChange) -> None:
    """Store what is about to be done, in place of what was intended by the same key."""
    values = {name: getattr(change, name) for name in _COLUMNS}
    conn.execute(upsert(memory_change, ["key"], ["before", "after", "made"]), values)


def made(conn: Connection, key: str) -> None:
    """Note that it has been done."""
    conn.execute(sa.update(memory_change).where(memory_change.c.key == key).values(made=True))


def latest(conn: Connection, profile: str, most: int) -> Sequence[MemoryChange]:
    """The changes that were made last, the newest first."""
    query = (
        sa.select(memory_change)
        .where(memory_change.c.profile == profile, memory_change.c.made)
        .order_by(memory_change.c.created_at.desc(), memory_change.c.key.desc())
        .limit(most)
    )
    return [_change(row) for row in conn.execute(query)]


def of_turn(conn: Connection, profile: str, turn_id: str) -> Sequence[MemoryChange]:
    """The changes that a turn has made, the oldest first."""
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
