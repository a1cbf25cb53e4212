"""Changes of sessions between turns: rename, configure, branch, delete.

Each change locks the session's row first, as the start of a turn does, so that one sees the other.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.compression import NOTHING
from agent_service.records.overlays import Overlay
from agent_service.records.requests import REVIEW, SUBAGENT
from agent_service.records.search_query import text_of
from agent_service.records.usage import Usage
from agent_service.storage import sessions, transcripts
from agent_service.storage.schema import (
    LIVE_STATES,
    approval,
    approval_grant,
    event,
    left_sandbox,
    message,
    review,
    sandbox_binding,
    session,
    session_file,
    session_state,
    step,
    turn,
    undone_message,
    watched_command,
)
from agent_service.storage.search import index
from agent_service.storage.sessions import (
    MODEL,
    NOTICES,
    OVERLAY,
    SessionInfo,
    new_session,
    revision_after,
)
from services.database import Prepared, is_one_of
from services.database.sql import insert_ignore
from services.errors import AlreadyExists, FailedPrecondition, NotFound

_HOLD = sa.select(session).where(session.c.id == bindparam("id")).with_for_update()
_UNFINISHED = Prepared(
    sa.select(turn.c.id).where(
        turn.c.session_id == bindparam("session_id"), turn.c.finished_at.is_(None)
    )
)
_SUBAGENTS = sa.select(session.c.id).where(
    session.c.parent_session_id == bindparam("parent"),
    session.c.platform.in_((SUBAGENT, REVIEW)),
    ~session.c.is_named,
    # A person's branch of such a session has the same platform, but no turns.
    sa.exists().where(turn.c.session_id == session.c.id, turn.c.kind == session.c.platform),
)
"""Its subagents and reviews, except those that a person named to keep them."""
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
    *(message, undone_message, sandbox_binding, session_state, approval_grant, watched_command),
    *(review, session_file, turn),
)
"""In this order, and before the session itself; a test compares this to the schema."""
_DELETES = (
    *(sa.delete(table).where(table.c.turn_id.in_(_ITS_TURNS)) for table in DELETED_BY_TURN),
    *(
        sa.delete(table).where(table.c.session_id == bindparam("of_session"))
        for table in DELETED_BY_SESSION
    ),
    sa.delete(session).where(session.c.id == bindparam("of_session")),
)


class PruneFilter(Struct, frozen=True):
    """Which sessions to prune."""

    profile: str
    since: datetime
    platform: str = ""
    include_named: bool = False
    after: str = ""


def rename(conn: Connection, session_id: str, profile: str, title: str) -> SessionInfo:
    """Set a session's title; NotFound if the profile has no such session."""
    sessions.get(conn, session_id, profile)
    named = sa.update(session).where(session.c.id == session_id)
    conn.execute(named.values(title=title, is_named=True))
    return sessions.get(conn, session_id, profile)


class Branch(Struct, frozen=True):
    """A session to create from another."""

    session_id: str
    new_session_id: str
    profile: str
    through: int = 0
    """Copy up to the end of this message's turn; 0 means all."""
    title: str = ""


def branch(conn: Connection, wanted: Branch, now: datetime) -> SessionInfo:
    """Create a session with the same prompt and messages, once for each id."""
    row = hold_idle(conn, wanted.session_id, wanted.profile)
    through = row.message_count
    if wanted.through:
        its = message.c.session_id == wanted.session_id
        its_turn = sa.select(message.c.turn_id).where(its, message.c.sequence == wanted.through)
        is_of_turn = message.c.turn_id == its_turn.scalar_subquery()
        through = conn.scalar(sa.select(sa.func.max(message.c.sequence)).where(its, is_of_turn))
        if through is None:
            raise NotFound(f"session {wanted.session_id} has no message {wanted.through}")
    known = conn.execute(_HOLD, {"id": wanted.new_session_id}).one_or_none()
    if known is not None:
        if (known.profile, known.parent_session_id) != (wanted.profile, wanted.session_id):
            raise AlreadyExists(f"there is a session {wanted.new_session_id} already")
        return sessions.get(conn, wanted.new_session_id, wanted.profile)
    old, new = wanted.session_id, wanted.new_session_id
    made: dict[str, Any] = {
        "parent_session_id": old,
        "title": wanted.title or row.title,
        "is_named": bool(wanted.title),
        "message_count": through,
        "usage": Usage(),
        "compression": row.compression if row.compression.is_of(through) else NOTHING,
        "revision": sessions.revision_after(-1, now),
        "created_at": now,
        "updated_at": now,
    }
    conn.execute(sessions.copy(session, session.c.id == old, id=new, **made))
    said = message.c.session_id == old, message.c.sequence <= through
    conn.execute(sessions.copy(message, *said, session_id=new))
    conn.execute(sessions.copy(session_state, session_state.c.session_id == old, session_id=new))
    its_files = session_file.c.session_id == old
    conn.execute(sessions.copy(session_file, its_files, session_id=new, workspace_id=""))
    # It has no turns that would tell.
    model = transcripts.header(conn, old, wanted.profile).model
    sessions.put_state(conn, new, transcripts.MODEL, model)
    index.index_session(conn, wanted.new_session_id, is_copy=True)
    return sessions.get(conn, wanted.new_session_id, wanted.profile)


def delete(conn: Connection, session_id: str, profile: str, now: datetime) -> None:
    """Delete a session with all its data and its subagents' sessions; their sandboxes are ended."""
    hold_idle(conn, session_id, profile)
    subagents = conn.scalars(_SUBAGENTS, {"parent": session_id}).all()
    # Lock all first: if one is busy, none is deleted.
    for subagent_id in subagents:
        hold_idle(conn, subagent_id, profile)
    for subagent_id in subagents:
        delete(conn, subagent_id, profile, now)
    is_branch = session.c.parent_session_id == session_id
    # From now on, copied messages are found in the branches.
    branches = conn.scalars(sa.select(session.c.id).where(is_branch)).all()
    conn.execute(sa.update(session).where(is_branch).values(parent_session_id=None))
    index.remove(conn, session_id)
    for branch_id in branches:
        index.remove(conn, branch_id)
        index.index_session(conn, branch_id)
    conn.execute(_LEAVE, {"of_session": session_id, "of_profile": profile, "now": now})
    for statement in _DELETES:
        conn.execute(statement, {"of_session": session_id})


def unused(conn: Connection, wanted: PruneFilter, most: int) -> Sequence[str]:
    """Return prunable sessions in order of their ids."""
    ids = sa.select(session.c.id).where(
        session.c.profile == wanted.profile,
        session.c.id > wanted.after,
        session.c.updated_at < wanted.since,
        ~sa.exists().where(turn.c.session_id == session.c.id, turn.c.finished_at.is_(None)),
    )
    if wanted.platform:
        ids = ids.where(session.c.platform == wanted.platform)
    if not wanted.include_named:
        ids = ids.where(~session.c.is_named)
    return conn.scalars(ids.order_by(session.c.id).limit(most)).all()


def delete_unused(conn: Connection, session_id: str, wanted: PruneFilter, now: datetime) -> bool:
    """Delete a session if it is still prunable; return whether it was."""
    try:
        row = hold_idle(conn, session_id, wanted.profile)
        if row.updated_at >= wanted.since or (row.is_named and not wanted.include_named):
            return False
        used = _SUBAGENTS.where(session.c.updated_at >= wanted.since).limit(1)
        if conn.execute(used, {"parent": session_id}).first() is not None:
            return False
        delete(conn, session_id, wanted.profile, now)
    except (NotFound, FailedPrecondition):
        return False
    return True


def hold(conn: Connection, session_id: str, profile: str) -> sa.Row[Any]:
    """Lock the session, so that no turn can begin."""
    row = conn.execute(_HOLD, {"id": session_id}).one_or_none()
    if row is None or row.profile != profile:
        raise NotFound(f"there is no session {session_id}")
    return row


def hold_idle(conn: Connection, session_id: str, profile: str) -> sa.Row[Any]:
    """Lock the session; refused while it has an unfinished turn."""
    row = hold(conn, session_id, profile)
    if _UNFINISHED.rows(conn, {"session_id": session_id}).first() is not None:
        raise FailedPrecondition(
            f"session {session_id} is busy with a turn; stop it, or wait for its end"
        )
    return row


def check_idle(conn: Connection, session_id: str, profile: str) -> None:
    """Raise NotFound for a missing session, FailedPrecondition while it has an unfinished turn."""
    sessions.get(conn, session_id, profile)
    if _UNFINISHED.rows(conn, {"session_id": session_id}).first() is not None:
        raise FailedPrecondition(f"session {session_id} is busy with a turn")


_BEGIN = insert_ignore(session)
"""An existing session stays as it is; a new one gets its prompt when its first turn begins."""


def set_model(
    conn: Connection, session_id: str, profile: str, platform: str, model: str, now: datetime
) -> None:
    """Set a session's model for turns stored from now on; empty means the configured one."""
    conn.execute(_BEGIN, new_session(session_id, profile, platform, now))
    sessions.get(conn, session_id, profile)
    sessions.put_state(conn, session_id, MODEL, model)


def personality_of(conn: Connection, session_id: str, profile: str) -> str:
    """Return the name of a session's personality; empty if it has none or does not exist."""
    try:
        sessions.get(conn, session_id, profile)
    except NotFound:
        return ""
    return Overlay.from_state(sessions.get_state(conn, session_id, OVERLAY)).personality


def set_personality(
    conn: Connection, session_id: str, profile: str, platform: str, overlay: Overlay, now: datetime
) -> None:
    """Set a session's personality from its next turn on, creating the session if necessary.

    A new session gets its prompt when its first turn begins.
    """
    conn.execute(_BEGIN, new_session(session_id, profile, platform, now))
    row = hold_idle(conn, session_id, profile)
    before = Overlay.from_state(sessions.get_state(conn, session_id, OVERLAY))
    after = before.with_personality(overlay.personality, overlay.personality_prompt)
    if after == before:
        return
    sessions.put_state(conn, session_id, OVERLAY, after.stored())
    # Conversations in memory have the old personality.
    its_row = sa.update(session).where(session.c.id == session_id)
    conn.execute(its_row.values(revision=revision_after(row.revision, now)))
    if row.message_count:
        state = {"after": row.message_count, "texts": [_told(after.personality)]}
        sessions.put_state(conn, session_id, NOTICES, state)


def _told(name: str) -> str:
    what = f"with the personality {name}" if name else "without a personality"
    return f"From here on {what}: what the provider has cached of this conversation is read anew."


class UntitledSession(Struct, frozen=True):
    """A session whose title is still made from its first message."""

    title: str
    said: str


def untitled(conn: Connection, session_id: str, turn_id: str) -> UntitledSession | None:
    """Return the session if this is its first answered turn and nobody has named it."""
    first = conn.execute(
        sa.select(message.c.content, session.c.title)
        .join(session, session.c.id == message.c.session_id)
        .where(
            message.c.session_id == session_id,
            message.c.turn_id == turn_id,
            message.c.role == "user",
            session.c.is_named.is_(False),
        )
        .order_by(message.c.sequence)
        .limit(1)
    ).one_or_none()
    answered_before = sa.select(message.c.sequence).where(
        message.c.session_id == session_id,
        message.c.turn_id != turn_id,
        message.c.role == "assistant",
    )
    if first is None or conn.execute(answered_before.limit(1)).first() is not None:
        return None
    return UntitledSession(first.title, text_of(json.loads(first.content)["content"]))


def give_title(conn: Connection, session_id: str, old: str, new: str) -> None:
    """Set a session's title, unless it has changed meanwhile or the session is gone."""
    its_row = sa.update(session).where(
        session.c.id == session_id, session.c.title == old, session.c.is_named.is_(False)
    )
    conn.execute(its_row.values(title=new))


def add_usage(conn: Connection, session_id: str, used: Usage) -> None:
    """Add to a session's total usage.

    A running turn has read the total before, and overwrites it without this.
    """
    is_live = turn.c.session_id == session.c.id, is_one_of(turn.c.state, LIVE_STATES)
    idle = sa.select(session.c.usage).where(
        session.c.id == session_id, ~sa.exists().where(*is_live)
    )
    known = conn.execute(idle.with_for_update()).scalar_one_or_none()
    if known is not None:
        its_row = sa.update(session).where(session.c.id == session_id)
        conn.execute(its_row.values(usage=known + used))
