"""Sessions in which something was chosen before anything was said."""

from datetime import datetime

from sqlalchemy import Connection

from agent_service.events import to_ms
from agent_service.storage.schema import session
from agent_service.usage import Usage
from services.database.sql import insert_ignore

_INSERT = insert_ignore(session)


def begin(conn: Connection, session_id: str, profile: str, platform: str, now: datetime) -> None:
    """Have the session there, if it is not; it gets its prompt when its first turn begins."""
    row: dict[str, object] = {
        "id": session_id,
        "profile": profile,
        "platform": platform,
        "title": "",
        "system_prompt": "",
        "workdir": "",
        "sandbox_template": "",
        "message_count": 0,
        "usage": Usage().stored(),
        "parent_session_id": None,
        "is_named": False,
        "revision": to_ms(now),
        "created_at": now,
        "updated_at": now,
    }
    conn.execute(_INSERT, row)
