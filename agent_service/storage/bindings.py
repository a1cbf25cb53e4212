"""Each session's current sandbox, and the sandboxes that sessions left behind."""

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.turn_state import LiveTurn
from agent_service.storage.schema import left_sandbox, sandbox_binding, session, turn
from services.database import Prepared, db_now
from services.database.sql import insert_ignore, upsert

LEFT_FOR_S = 48 * 3600.0
"""How long a left sandbox is remembered; by then its executor has ended it itself."""


class Binding(Struct, frozen=True):
    """A session's sandbox; its id is empty before the first."""

    sandbox_id: str
    endpoint: str
    """The address of its executor; empty if there is only one."""
    workspace_id: str
    """Identifies its files; empty if they are a host folder."""


NO_BINDING = Binding("", "", "")


class SandboxRequest(Struct, frozen=True):
    """The properties of a session's sandbox."""

    workdir: str
    """The host folder that the session works in; empty means a workspace."""
    template: str
    """Empty means the default."""


class Left(Struct, frozen=True):
    """A sandbox whose executor was unreachable, so that its session continued elsewhere."""

    sandbox_id: str
    session_id: str
    profile: str
    endpoint: str


_BINDING = Prepared(
    sa.select(
        sandbox_binding.c.sandbox_id, sandbox_binding.c.endpoint, sandbox_binding.c.workspace_id
    ).where(sandbox_binding.c.session_id == bindparam("session_id"))
)
_WISH = Prepared(
    sa.select(session.c.workdir, session.c.sandbox_template).where(
        session.c.id == bindparam("session_id")
    )
)
_BIND = Prepared(
    upsert(sandbox_binding, ("session_id",), ("sandbox_id", "endpoint", "workspace_id"))
)
_FORGET = Prepared(
    sa.delete(left_sandbox).where(left_sandbox.c.sandbox_id == bindparam("sandbox_id"))
)
_OWNED = Prepared(
    sa.select(turn.c.id).where(*(turn.c[key] == bindparam(key) for key in ("id", "owner", "epoch")))
)
_LEAVE = insert_ignore(left_sandbox).values(left_at=db_now())


def get(conn: Connection, session_id: str) -> Binding:
    """Return the session's sandbox."""
    row = _BINDING.rows(conn, {"session_id": session_id}).one_or_none()
    return Binding(row.sandbox_id, row.endpoint, row.workspace_id) if row else NO_BINDING


def wish(conn: Connection, session_id: str) -> SandboxRequest:
    """Return the properties that the session's sandbox must have."""
    return SandboxRequest(*_WISH.rows(conn, {"session_id": session_id}).one())


def put(conn: Connection, live: LiveTurn, binding: Binding) -> None:
    """Store the sandbox before anything runs in it, and remember one left at another executor."""
    before = get(conn, live.session_id)
    if before.endpoint not in ("", binding.endpoint):
        left = {
            "sandbox_id": before.sandbox_id,
            "session_id": live.session_id,
            "profile": live.profile,
            "endpoint": before.endpoint,
        }
        conn.execute(_LEAVE, left)
    values = {
        "session_id": live.session_id,
        "sandbox_id": binding.sandbox_id,
        "endpoint": binding.endpoint,
        "workspace_id": binding.workspace_id,
    }
    _BIND.run(conn, values)
    # The session may have returned to a sandbox that it had left.
    forget_left(conn, binding.sandbox_id)


def owns(conn: Connection, live: LiveTurn) -> bool:
    """Return whether the turn still has the same owner as when it was loaded."""
    mine = {"id": live.id, "owner": live.lease.owner, "epoch": live.epoch}
    return _OWNED.rows(conn, mine).one_or_none() is not None


def all_left(conn: Connection) -> list[Left]:
    """Return left sandboxes that are not known to have ended."""
    row = left_sandbox.c
    return [
        Left(*found)
        for found in conn.execute(
            sa.select(row.sandbox_id, row.session_id, row.profile, row.endpoint)
        )
    ]


def is_left(conn: Connection, sandbox_id: str) -> bool:
    """Return whether its session has left the sandbox and not returned."""
    found = sa.select(left_sandbox.c.sandbox_id).where(left_sandbox.c.sandbox_id == sandbox_id)
    return conn.execute(found).one_or_none() is not None


def forget_left(conn: Connection, sandbox_id: str) -> None:
    """Forget a left sandbox that has ended, or that its session has again."""
    _FORGET.run(conn, {"sandbox_id": sandbox_id})


def forget_old_left(conn: Connection) -> None:
    """Forget left sandboxes that must have ended by themselves."""
    conn.execute(sa.delete(left_sandbox).where(left_sandbox.c.left_at < db_now(-LEFT_FOR_S)))
