"""Watched background commands; one replica at a time watches a command."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.records.background import CommandNews, Progress, WatchedCommand
from agent_service.storage.schema import CLAIMABLE_STATES, turn
from agent_service.storage.schema import watched_command as row
from services.database import db_now, insert_ignore, is_one_of
from services.database.leases import Lease, LeaseTable, Owner

MAX_OF_SESSION = 20
"""The number of watched commands that a session may have."""

_INSERT = insert_ignore(row)
_COUNT = sa.select(sa.func.count()).where(row.c.session_id == bindparam("session_id"))
_RUNS_ELSEWHERE = (
    is_one_of(turn.c.state, CLAIMABLE_STATES),
    turn.c.owner.is_distinct_from(bindparam("mine")),
)
"""A turn runs on another replica, which has the session's sandbox."""
_FREE = (
    sa.select(row.c.id)
    .where(
        sa.or_(row.c.owner.is_(None), row.c.lease_until < db_now()),
        ~sa.exists().where(turn.c.session_id == row.c.session_id, *_RUNS_ELSEWHERE),
    )
    .order_by(row.c.id)
    .limit(bindparam("most"))
)
_ELSEWHERE = sa.select(turn.c.id).where(
    turn.c.session_id == bindparam("session_id"), *_RUNS_ELSEWHERE
)
_BY_ID = sa.select(row).where(row.c.id == bindparam("id"))
_DELETE = sa.delete(row).where(row.c.id == bindparam("gone"))
_SEEN = sa.delete(row).where(row.c.id == bindparam("gone"), row.c.notice == "")


def watch_leases(ttl_s: float) -> LeaseTable:
    """Return the leases of watched commands."""
    return LeaseTable(row, ttl_s=ttl_s)


def add(conn: Connection, watched: WatchedCommand) -> bool:
    """Watch a command; False if its session has too many already."""
    session_id = watched.request.session_id
    count = conn.execute(_COUNT, {"session_id": session_id}).scalar_one()
    is_known = conn.execute(_BY_ID, {"id": watched.key}).one_or_none() is not None
    if count >= MAX_OF_SESSION and not is_known:
        return False
    values = {
        "id": watched.key,
        "session_id": session_id,
        "watched": watched,
        "progress": Progress(),
        "notice": "",
        "owner": None,
        "epoch": 0,
        "version": 1,
        "lease_until": None,
    }
    conn.execute(_INSERT.values(created_at=db_now()), values)
    return True


def free(conn: Connection, owner: Owner, most: int) -> Sequence[str]:
    """Return unwatched commands of sessions in which no other replica works."""
    return conn.execute(_FREE, {"mine": str(owner), "most": most}).scalars().all()


def is_worked_in(conn: Connection, session_id: str, owner: Owner) -> bool:
    """Return whether another replica runs a turn of the session."""
    asked = {"session_id": session_id, "mine": str(owner)}
    return conn.execute(_ELSEWHERE, asked).first() is not None


def claim(
    conn: Connection, leases: LeaseTable, key: str, owner: Owner
) -> tuple[Lease, WatchedCommand, CommandNews] | None:
    """Claim a command, with news that may not be sent yet; None if another replica has it."""
    if (lease := leases.claim(conn, key, owner)) is None:
        return None
    found = conn.execute(_BY_ID, {"id": key}).one()
    return lease, found.watched, CommandNews(found.notice, found.progress)


def note(conn: Connection, leases: LeaseTable, lease: Lease, news: CommandNews) -> None:
    """Store news before it is sent, and its progress; an empty text means that it was sent."""
    leases.fence(conn, lease, notice=news.text, progress=news.progress)


def forget(conn: Connection, leases: LeaseTable, lease: Lease) -> None:
    """Delete a command that has nothing left to report."""
    leases.fence(conn, lease)
    conn.execute(_DELETE, {"gone": lease.id})


def mark_seen(conn: Connection, key: str) -> None:
    """Note that the model itself has seen the command's end."""
    conn.execute(_SEEN, {"gone": key})
