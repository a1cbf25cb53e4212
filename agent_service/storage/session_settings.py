"""What a person sets of a session, also before anything is said in it: model and personality."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.prompt.overlays import Overlay
from agent_service.storage import sessions
from agent_service.storage.schema import session
from agent_service.storage.session_changes import hold_idle
from agent_service.storage.sessions import MODEL, NOTICES, OVERLAY, new_session, revision_after
from services.database.sql import insert_ignore
from services.errors import NotFound

_BEGIN = insert_ignore(session)
"""A session that is there already stays; a new one gets its prompt when its first turn begins."""


def set_model(
    conn: Connection, session_id: str, profile: str, platform: str, model: str, now: datetime
) -> None:
    """Give a session a model, from its next turn on; empty is the configured one.

    A turn that is stored keeps the one that it was stored with.
    """
    conn.execute(_BEGIN, new_session(session_id, profile, platform, now))
    sessions.get(conn, session_id, profile)
    sessions.put_state(conn, session_id, MODEL, model)


def personality_of(conn: Connection, session_id: str, profile: str) -> str:
    """The name of a session's personality; empty where there is none, or no such session."""
    try:
        sessions.get(conn, session_id, profile)
    except NotFound:
        return ""
    return Overlay.of(sessions.get_state(conn, session_id, OVERLAY)).personality


def set_personality(
    conn: Connection, session_id: str, profile: str, platform: str, overlay: Overlay, now: datetime
) -> None:
    """Give a session the personality of an overlay, from its next turn on; the same again is one.

    A session that has not begun is there from now on, and gets its prompt when it begins.
    """
    conn.execute(_BEGIN, new_session(session_id, profile, platform, now))
    row = hold_idle(conn, session_id, profile)
    before = Overlay.of(sessions.get_state(conn, session_id, OVERLAY))
    after = before.with_personality(overlay.personality, overlay.personality_prompt)
    if after == before:
        return
    sessions.put_state(conn, session_id, OVERLAY, after.stored())
    # Whoever has the conversation in memory has it with the other personality.
    its_row = sa.update(session).where(session.c.id == session_id)
    conn.execute(its_row.values(revision=revision_after(row.revision, now)))
    if row.message_count:
        told = {"after": row.message_count, "texts": [_told(after.personality)]}
        sessions.put_state(conn, session_id, NOTICES, told)


def _told(name: str) -> str:
    what = f"with the personality {name}" if name else "without a personality"
    return f"From here on {what}: what the provider has cached of this conversation is read anew."
