"""Sessions as a person changes them between their turns: named, branched, deleted.

Each change holds the session's row first, as whoever begins a turn does, so that either the turn is
seen here or the change is seen there.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.requests import REVIEW, SUBAGENT
from agent_service.storage import search_index, sessions
from agent_service.storage.schema import (
    approval,
    approval_grant,
    compaction,
    event,
    left_sandbox,
    message,
    review,
    sandbox_binding,
    session,
    session_state,
    step,
    turn,
    undone_message,
    watched_command,
)
from agent_service.storage.sessions import SessionInfo
from agent_service.usage import Usage
from services.database.sql import insert_ignore
from services.errors import AlreadyExists, FailedPrecondition, NotFound

_HOLD = sa.select(session).where(session.c.id == bindparam("id")).with_for_update()
_UNFINISHED = sa.select(turn.c.id).where(
    turn.c.session_id == bindparam("session_id"), turn.c.finished_at.is_(None)
)
_RENAME = (
    sa.update(session)
    .where(session.c.id == bindparam("key"))
    .values(title=bindparam("new_title"), is_named=True)
)
_LAST_OF_TURN = sa.select(sa.func.max(message.c.sequence)).where(
    message.c.session_id == bindparam("session_id"),
    message.c.turn_id
    == sa.select(message.c.turn_id)
    .where(
        message.c.session_id == bindparam("session_id"),
        message.c.sequence == bindparam("sequence"),
    )
    .scalar_subquery(),
)
_COPY = sa.insert(message).from_select(
    [column.name for column in message.columns],
    sa.select(
        bindparam("new_session", type_=sa.String()),
        *(column for column in message.columns if column.name != "session_id"),
    ).where(
        message.c.session_id == bindparam("of_session"),
        message.c.sequence <= bindparam("through"),
    ),
)
_COPY_COMPACTION = sa.insert(compaction).from_select(
    [column.name for column in compaction.columns],
    sa.select(
        bindparam("new_session", type_=sa.String()),
        *(column for column in compaction.columns if column.name != "session_id"),
    ).where(
        compaction.c.session_id == bindparam("of_session"),
        compaction.c.through <= bindparam("through"),
        compaction.c.pruned <= bindparam("through"),
    ),
)
_COPY_STATE = sa.insert(session_state).from_select(
    [column.name for column in session_state.columns],
    sa.select(
        bindparam("new_session", type_=sa.String()), session_state.c.name, session_state.c.value
    ).where(session_state.c.session_id == bindparam("of_session")),
)
"""The plan, and that it has read what strangers have said."""
_BRANCHES = sa.select(session.c.id).where(session.c.parent_session_id == bindparam("parent"))
_SUBAGENTS = sa.select(session.c.id).where(
    session.c.parent_session_id == bindparam("parent"),
    session.c.platform.in_((SUBAGENT, REVIEW)),
    ~session.c.is_named,
    # A person's branch of one has its platform as well, and copies no turns.
    sa.exists().where(turn.c.session_id == session.c.id, turn.c.kind == session.c.platform),
)
"""Those that it has handed work over to, and that look back at it, but for what somebody has named
to keep it."""
_USED_SUBAGENT = _SUBAGENTS.where(
    session.c.updated_at >= bindparam("unused_since", type_=session.c.updated_at.type)
).limit(1)
_ORPHAN = (
    sa.update(session)
    .where(session.c.parent_session_id == bindparam("parent"))
    .values(parent_session_id=None)
)
_LEAVE = insert_ignore(left_sandbox).from_select(
    ["sandbox_id", "session_id", "profile", "endpoint", "left_at"],
    sa.select(
        sandbox_binding.c.sandbox_id,
        sandbox_binding.c.session_id,
        bindparam("of_profile", type_=sa.String()),
        sandbox_binding.c.endpoint,
        bindparam("now", type_=left_sandbox.c.left_at.type),
    ).where(
        sandbox_binding.c.session_id == bindparam("of_session"), sandbox_binding.c.sandbox_id != ""
    ),
)
_ITS_TURNS = sa.select(turn.c.id).where(turn.c.session_id == bindparam("of_session"))
DELETED_BY_TURN = (step, event, approval)
DELETED_BY_SESSION = (
    *(
        message,
        undone_message,
        compaction,
        sandbox_binding,
        session_state,
        approval_grant,
        watched_command,
    ),
    *(review, turn),
)
"""In this order, and before the session itself; a test holds these to the schema."""
_DELETES = (
    *(sa.delete(table).where(table.c.turn_id.in_(_ITS_TURNS)) for table in DELETED_BY_TURN),
    *(
        sa.delete(table).where(table.c.session_id == bindparam("of_session"))
        for table in DELETED_BY_SESSION
    ),
    sa.delete(session).where(session.c.id == bindparam("of_session")),
)
_UNUSED = (
    sa.select(session.c.id)
    .where(
        session.c.profile == bindparam("profile"),
        session.c.id > bindparam("after"),
        session.c.updated_at < bindparam("unused_since", type_=session.c.updated_at.type),
        sa.or_(bindparam("platform") == "", session.c.platform == bindparam("platform")),
        sa.or_(bindparam("include_named"), ~session.c.is_named),
        ~sa.exists().where(turn.c.session_id == session.c.id, turn.c.finished_at.is_(None)),
    )
    .order_by(session.c.id)
    .limit(bindparam("most"))
)


class Unused(Struct, frozen=True):
    """Which sessions are to be pruned."""

    profile: str
    since: datetime
    platform: str = ""
    include_named: bool = False
    after: str = ""


def rename(conn: Connection, session_id: str, profile: str, title: str) -> SessionInfo:
    """Give the session a title; NotFound when there is none, or not in this profile."""
    sessions.get(conn, session_id, profile)
    conn.execute(_RENAME, {"key": session_id, "new_title": title})
    return sessions.get(conn, session_id, profile)


class Branch(Struct, frozen=True):
    """A session to make of another."""

    session_id: str
    new_session_id: str
    profile: str
    through: int = 0
    """Up to the end of the turn of this message; 0 is all."""
    title: str = ""


def branch(conn: Connection, wanted: Branch, now: datetime) -> SessionInfo:
    """Make a session with the same prompt and messages; the same again returns it."""
    row = hold_idle(conn, wanted.session_id, wanted.profile)
    through = row.message_count
    if wanted.through:
        place = {"session_id": wanted.session_id, "sequence": wanted.through}
        through = conn.execute(_LAST_OF_TURN, place).scalar_one()
        if through is None:
            raise NotFound(f"session {wanted.session_id} has no message {wanted.through}")
    known = conn.execute(_HOLD, {"id": wanted.new_session_id}).one_or_none()
    if known is not None:
        if (known.profile, known.parent_session_id) != (wanted.profile, wanted.session_id):
            raise AlreadyExists(f"there is a session {wanted.new_session_id} already")
        return sessions.get(conn, wanted.new_session_id, wanted.profile)
    made: dict[str, Any] = dict(zip(session.c.keys(), row, strict=True)) | {
        "id": wanted.new_session_id,
        "parent_session_id": wanted.session_id,
        "title": wanted.title or row.title,
        "is_named": bool(wanted.title),
        "message_count": through,
        "usage": Usage(),
        "revision": sessions.revision_after(-1, now),
        "created_at": now,
        "updated_at": now,
    }
    conn.execute(sa.insert(session), made)
    copied = {"new_session": wanted.new_session_id, "of_session": wanted.session_id}
    conn.execute(_COPY, copied | {"through": through})
    conn.execute(_COPY_STATE, copied)
    conn.execute(_COPY_COMPACTION, copied | {"through": through})
    search_index.index_session(conn, wanted.new_session_id, is_copy=True)
    return sessions.get(conn, wanted.new_session_id, wanted.profile)


def delete(conn: Connection, session_id: str, profile: str, now: datetime) -> None:
    """Delete the session and all that belongs to it, the sessions of its subagents too.

    Their sandboxes are ended as those that were left.
    """
    hold_idle(conn, session_id, profile)
    subagents = conn.scalars(_SUBAGENTS, {"parent": session_id}).all()
    # All of them before anything is changed, as one that is busy keeps the others as well.
    for subagent_id in subagents:
        hold_idle(conn, subagent_id, profile)
    for subagent_id in subagents:
        delete(conn, subagent_id, profile, now)
    # What branches have copied is found in them from now on.
    branches = conn.scalars(_BRANCHES, {"parent": session_id}).all()
    conn.execute(_ORPHAN, {"parent": session_id})
    search_index.remove(conn, session_id)
    for branch_id in branches:
        search_index.remove(conn, branch_id)
        search_index.index_session(conn, branch_id)
    conn.execute(_LEAVE, {"of_session": session_id, "of_profile": profile, "now": now})
    for statement in _DELETES:
        conn.execute(statement, {"of_session": session_id})


def unused(conn: Connection, wanted: Unused, most: int) -> Sequence[str]:
    """Sessions that can be pruned, in the order of their ids."""
    values = {
        "profile": wanted.profile,
        "after": wanted.after,
        "unused_since": wanted.since,
        "platform": wanted.platform,
        "include_named": wanted.include_named,
        "most": most,
    }
    return conn.scalars(_UNUSED, values).all()


def delete_unused(conn: Connection, session_id: str, wanted: Unused, now: datetime) -> bool:
    """Delete a session that can still be pruned; returns whether it could."""
    try:
        row = hold_idle(conn, session_id, wanted.profile)
        if row.updated_at >= wanted.since or (row.is_named and not wanted.include_named):
            return False
        used = {"parent": session_id, "unused_since": wanted.since}
        if conn.execute(_USED_SUBAGENT, used).first() is not None:
            return False
        delete(conn, session_id, wanted.profile, now)
    except (NotFound, FailedPrecondition):
        return False
    return True


def hold(conn: Connection, session_id: str, profile: str) -> sa.Row[Any]:
    """The session, which nobody begins a turn of meanwhile."""
    row = conn.execute(_HOLD, {"id": session_id}).one_or_none()
    if row is None or row.profile != profile:
        raise NotFound(f"there is no session {session_id}")
    return row


def hold_idle(conn: Connection, session_id: str, profile: str) -> sa.Row[Any]:
    """The same; refused while one of its turns is unfinished."""
    row = hold(conn, session_id, profile)
    if conn.execute(_UNFINISHED, {"session_id": session_id}).first() is not None:
        raise FailedPrecondition(
            f"session {session_id} is busy with a turn; stop it, or wait for its end"
        )
    return row
