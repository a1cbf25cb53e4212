"""What was allowed for longer: one exact call each, never a whole tool."""

import sqlalchemy as sa
from sqlalchemy import Column, Connection, String, Table, Text, bindparam

from agent_service.storage.schema import metadata
from services.database.sql import UtcTime, db_now, insert_ignore

EVERY_SESSION = ""
"""The session of what is allowed for always."""

grant = Table(
    "approval_grant",
    metadata,
    Column("profile", String(64), primary_key=True),
    Column("session_id", String(128), primary_key=True),
    Column("tool", String(64), primary_key=True),
    Column("binding", String(64), primary_key=True),
    Column("decided_by", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
)

_PUT = insert_ignore(grant).values(
    profile=bindparam("profile"),
    session_id=bindparam("session_id"),
    tool=bindparam("tool"),
    binding=bindparam("binding"),
    decided_by=bindparam("decided_by"),
    created_at=db_now(),
)
_FIND = sa.select(sa.func.count()).where(
    grant.c.profile == bindparam("profile"),
    sa.or_(grant.c.session_id == bindparam("session_id"), grant.c.session_id == EVERY_SESSION),
    grant.c.tool == bindparam("tool"),
    grant.c.binding == bindparam("binding"),
)


def is_granted(conn: Connection, profile: str, session_id: str, tool: str, binding: str) -> bool:
    """Whether this very call was allowed before, in the session or for always."""
    found = conn.execute(
        _FIND, {"profile": profile, "session_id": session_id, "tool": tool, "binding": binding}
    )
    return bool(found.scalar_one())


def put(
    conn: Connection, profile: str, session_id: str, bound: tuple[str, str], decided_by: str
) -> None:
    """Keep that a call is allowed, which is bound to a tool and to what exactly it does."""
    row = {"profile": profile, "session_id": session_id, "decided_by": decided_by}
    conn.execute(_PUT, {**row, "tool": bound[0], "binding": bound[1]})
