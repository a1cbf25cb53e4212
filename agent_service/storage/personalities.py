"""Which personality a session has."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from agent_service.events import to_ms
from agent_service.prompt.overlays import Overlay
from agent_service.storage import sessions, unprompted
from agent_service.storage.schema import session
from agent_service.storage.session_changes import hold_idle
from agent_service.storage.sessions import NOTICES, OVERLAY
from services.errors import NotFound

_REVISE = (
    sa.update(session)
    .where(session.c.id == bindparam("key"))
    .values(revision=bindparam("new_revision"))
)


def of(conn: Connection, session_id: str, profile: str) -> str:
    """Its name; empty where it has none, or there is no such session."""
    try:
        sessions.get(conn, session_id, profile)
    except NotFound:
        return ""
    return Overlay.of(sessions.get_state(conn, session_id, OVERLAY)).personality


def put(
    conn: Connection, session_id: str, profile: str, platform: str, overlay: Overlay, now: datetime
) -> None:
    """Give a session the personality of an overlay, from its next turn on; the same again is one.

    A session that has not begun is there from now on, and gets its prompt when it begins.
    """
    unprompted.begin(conn, session_id, profile, platform, now)
    row = hold_idle(conn, session_id, profile)
    before = Overlay.of(sessions.get_state(conn, session_id, OVERLAY))
    after = before.with_personality(overlay.personality, overlay.personality_prompt)
    if after == before:
        return
    sessions.put_state(conn, session_id, OVERLAY, after.stored())
    # Whoever has the conversation in memory has it with the other personality.
    revised = max(row.revision + 1, to_ms(now))
    conn.execute(_REVISE, {"key": session_id, "new_revision": revised})
    if row.message_count:
        texts = [_told(after.personality)]
        told = {"after": row.message_count, "texts": texts}
        sessions.put_state(conn, session_id, NOTICES, told)


def _told(name: str) -> str:
    what = f"with the personality {name}" if name else "without a personality"
    return f"From here on {what}: what the provider has cached of this conversation is read anew."
