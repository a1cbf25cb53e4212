"""Which model a session was given."""

from datetime import datetime

from sqlalchemy import Connection

from agent_service.storage import sessions, unprompted
from agent_service.storage.sessions import MODEL


def put(
    conn: Connection, session_id: str, profile: str, platform: str, model: str, now: datetime
) -> None:
    """Give a session a model, from its next turn on; empty is the configured one.

    A turn that is stored keeps the one that it was stored with.
    """
    unprompted.begin(conn, session_id, profile, platform, now)
    sessions.get(conn, session_id, profile)
    sessions.put_state(conn, session_id, MODEL, model)
