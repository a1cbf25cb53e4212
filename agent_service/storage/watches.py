"""Commands that the model is to be told of, each watched by one replica at a time."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.live_turn import LiveTurn
from agent_service.requests import StoredRequest
from agent_service.storage.schema import CLAIMABLE_STATES, turn
from agent_service.storage.schema import watched_command as row
from agent_service.watched import Progress, Wanted
from services.database import db_now, insert_ignore, is_one_of
from services.leases import Lease, LeaseTable, Owner

MAX_OF_SESSION = 20
"""Commands that a session may have watched at a time."""


class Watched(Struct, frozen=True):
    """A command as it is watched."""

    key: str
    profile: str
    session_id: str
    sandbox_id: str
    """Where it runs; the session may have another sandbox by now."""
    command: str
    request: StoredRequest
    """What turns that tell of it have of the turn that began it."""
    wanted: Wanted
    progress: Progress
    notice: str
    """What is being told; empty where nothing is."""


_INSERT = insert_ignore(row)
_COUNT = sa.select(sa.func.count()).where(row.c.session_id == bindparam("session_id"))
_WORKED_IN_ELSEWHERE = sa.exists().where(
    turn.c.session_id == row.c.session_id,
    is_one_of(turn.c.state, CLAIMABLE_STATES),
    turn.c.owner.is_distinct_from(bindparam("mine")),
)
"""A turn of the session runs, and not here: who runs it has the sandbox."""
_FREE = (
    sa.select(row.c.id)
    .where(sa.or_(row.c.owner.is_(None), row.c.lease_until < db_now()), ~_WORKED_IN_ELSEWHERE)
    .order_by(row.c.id)
    .limit(bindparam("most"))
)
_ELSEWHERE = sa.select(turn.c.id).where(
    turn.c.session_id == bindparam("session_id"),
    is_one_of(turn.c.state, CLAIMABLE_STATES),
    turn.c.owner.is_distinct_from(bindparam("mine")),
)
_BY_ID = sa.select(row).where(row.c.id == bindparam("id"))
_DELETE = sa.delete(row).where(row.c.id == bindparam("gone"))
_SEEN = sa.delete(row).where(row.c.id == bindparam("gone"), row.c.notice == "")


def watch_leases(ttl_s: float) -> LeaseTable:
    """The leases of watched commands."""
    return LeaseTable(row, ttl_s=ttl_s)


def add(
    conn: Connection, live: LiveTurn, key: str, sandbox_id: str, command: str, wanted: Wanted
) -> bool:
    """Have a command of a turn watched; False where its session has too many already."""
    count = conn.execute(_COUNT, {"session_id": live.session_id}).scalar_one()
    is_known = conn.execute(_BY_ID, {"id": key}).one_or_none() is not None
    if count >= MAX_OF_SESSION and not is_known:
        return False
    values = {
        "id": key,
        "profile": live.profile,
        "session_id": live.session_id,
        "sandbox_id": sandbox_id,
        "command": command,
        "request": StoredRequest(
            text="",
            origin=live.origin,
            model=live.request.model,
            toolsets=tuple(sorted(live.toolsets)),
            denied=tuple(sorted(live.denied)),
        ),
        "wanted": wanted,
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
    """Commands that nobody watches, of sessions in which nobody else works."""
    return conn.execute(_FREE, {"mine": str(owner), "most": most}).scalars().all()


def is_worked_in(conn: Connection, session_id: str, owner: Owner) -> bool:
    """Whether a turn of the session runs that is not this replica's."""
    asked = {"session_id": session_id, "mine": str(owner)}
    return conn.execute(_ELSEWHERE, asked).first() is not None


def claim(
    conn: Connection, leases: LeaseTable, key: str, owner: Owner
) -> tuple[Lease, Watched] | None:
    """Watch a command; None where somebody else does."""
    lease = leases.claim(conn, key, owner)
    return None if lease is None else (lease, _watched(conn.execute(_BY_ID, {"id": key}).one()))


def note(
    conn: Connection, leases: LeaseTable, lease: Lease, progress: Progress, notice: str
) -> None:
    """Store what is to be told from now on, with what it stands for."""
    leases.fence(conn, lease, notice=notice, progress=progress)


def told(conn: Connection, leases: LeaseTable, lease: Lease) -> None:
    """Store that the notice was told."""
    leases.fence(conn, lease, notice="")


def forget(conn: Connection, leases: LeaseTable, lease: Lease) -> None:
    """Nothing is left to be told."""
    leases.fence(conn, lease)
    conn.execute(_DELETE, {"gone": lease.id})


def seen(conn: Connection, key: str) -> None:
    """The model has seen itself that the command has ended."""
    conn.execute(_SEEN, {"gone": key})


def _watched(found: sa.Row[Any]) -> Watched:
    return Watched(
        key=found.id,
        profile=found.profile,
        session_id=found.session_id,
        sandbox_id=found.sandbox_id,
        command=found.command,
        request=found.request,
        wanted=found.wanted,
        progress=found.progress,
        notice=found.notice,
    )
