"""Which sandbox a session used last, and which it has left behind."""

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.turn_state import LiveTurn
from agent_service.storage.schema import left_sandbox, sandbox_binding, session, turn
from services.database import db_now
from services.database.sql import insert_ignore, upsert

LEFT_FOR_S = 48 * 3600.0
"""How long a sandbox that was left is remembered: by then its executor has ended it itself."""


class Binding(Struct, frozen=True):
    """The sandbox of a session; its id is empty before the first."""

    sandbox_id: str
    endpoint: str
    """Where its executor alone is reached; empty where there is one executor only."""
    workspace_id: str
    """What its files are known by; empty where they are those of a folder of the host."""


NO_BINDING = Binding("", "", "")


class SandboxRequest(Struct, frozen=True):
    """What a session's sandbox shall be."""

    workdir: str
    """The folder of the host that the session works in; empty for a workspace."""
    template: str
    """What it is made from; empty is the usual."""


class Left(Struct, frozen=True):
    """A sandbox whose executor could not be reached, so that its session went on elsewhere."""

    sandbox_id: str
    session_id: str
    profile: str
    endpoint: str


_BINDING = sa.select(
    sandbox_binding.c.sandbox_id, sandbox_binding.c.endpoint, sandbox_binding.c.workspace_id
).where(sandbox_binding.c.session_id == bindparam("session_id"))
_WISH = sa.select(session.c.workdir, session.c.sandbox_template).where(
    session.c.id == bindparam("session_id")
)
_BIND = upsert(sandbox_binding, ("session_id",), ("sandbox_id", "endpoint", "workspace_id"))
_LEAVE = insert_ignore(left_sandbox).values(left_at=db_now())


def get(conn: Connection, session_id: str) -> Binding:
    """The session's sandbox."""
    row = conn.execute(_BINDING, {"session_id": session_id}).one_or_none()
    return Binding(row.sandbox_id, row.endpoint, row.workspace_id) if row else NO_BINDING


def wish(conn: Connection, session_id: str) -> SandboxRequest:
    """What the session's sandbox shall be."""
    return SandboxRequest(*conn.execute(_WISH, {"session_id": session_id}).one())


def put(conn: Connection, live: LiveTurn, binding: Binding) -> None:
    """Note the sandbox before anything runs in it, and the one at another executor before it."""
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
    conn.execute(_BIND, values)
    # It may be one that was left before.
    forget_left(conn, binding.sandbox_id)


def owns(conn: Connection, live: LiveTurn) -> bool:
    """Whether the turn is still owned as it was when it was loaded."""
    mine = turn.c.id == live.id, turn.c.owner == live.lease.owner, turn.c.epoch == live.epoch
    return conn.execute(sa.select(turn.c.id).where(*mine)).one_or_none() is not None


def all_left(conn: Connection) -> list[Left]:
    """The sandboxes that were left behind and are not known to have ended."""
    row = left_sandbox.c
    return [
        Left(*found)
        for found in conn.execute(
            sa.select(row.sandbox_id, row.session_id, row.profile, row.endpoint)
        )
    ]


def is_left(conn: Connection, sandbox_id: str) -> bool:
    """Whether its session has not come back to a sandbox that it has left behind."""
    found = sa.select(left_sandbox.c.sandbox_id).where(left_sandbox.c.sandbox_id == sandbox_id)
    return conn.execute(found).one_or_none() is not None


def forget_left(conn: Connection, sandbox_id: str) -> None:
    """The sandbox has ended, or its session has it again."""
    conn.execute(sa.delete(left_sandbox).where(left_sandbox.c.sandbox_id == sandbox_id))


def forget_old_left(conn: Connection) -> None:
    """Forget those that must have ended by themselves."""
    conn.execute(sa.delete(left_sandbox).where(left_sandbox.c.left_at < db_now(-LEFT_FOR_S)))
