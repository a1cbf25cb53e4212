"""Which sandbox a session used last."""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.live_turn import LiveTurn
from agent_service.storage.schema import sandbox_binding, session, turn
from services.database.sql import upsert


@dataclass(frozen=True, slots=True)
class Binding:
    """The sandbox of a session, and the host folder that it works in if there is one."""

    sandbox_id: str
    endpoint: str
    workdir: str


_BINDING = (
    sa.select(
        session.c.workdir,
        sa.func.coalesce(sandbox_binding.c.sandbox_id, "").label("sandbox_id"),
        sa.func.coalesce(sandbox_binding.c.endpoint, "").label("endpoint"),
    )
    .join_from(session, sandbox_binding, isouter=True)
    .where(session.c.id == bindparam("session_id"))
)
_BIND = upsert(sandbox_binding, ("session_id",), ("sandbox_id", "endpoint"))
_OWNS = sa.select(turn.c.id).where(
    turn.c.id == bindparam("id"),
    turn.c.owner == bindparam("owner"),
    turn.c.epoch == bindparam("epoch"),
)


def get(conn: Connection, session_id: str) -> Binding:
    """The session's sandbox; its id is empty before the first."""
    row = conn.execute(_BINDING, {"session_id": session_id}).one()
    return Binding(row.sandbox_id, row.endpoint, row.workdir)


def put(conn: Connection, session_id: str, sandbox_id: str, endpoint: str) -> None:
    """Note the sandbox before anything runs in it."""
    conn.execute(_BIND, {"session_id": session_id, "sandbox_id": sandbox_id, "endpoint": endpoint})


def owns(conn: Connection, live: LiveTurn) -> bool:
    """Whether the turn is still owned as it was when it was loaded."""
    mine = {"id": live.id, "owner": live.lease.owner, "epoch": live.epoch}
    return conn.execute(_OWNS, mine).one_or_none() is not None
