"""What chats have chosen that their messages do to the work in progress."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, bindparam

from gateway_service.messages import BusyMode
from gateway_service.storage.schema import chat_busy_mode
from services.database import Prepared, insert_ignore, upsert

_OF_CHAT = (
    chat_busy_mode.c.profile == bindparam("of_profile"),
    chat_busy_mode.c.session_key == bindparam("of_key"),
)
_CHOSEN = Prepared(sa.select(chat_busy_mode.c.mode).where(*_OF_CHAT))
_CHOOSE = upsert(chat_busy_mode, ("profile", "session_key"), ("mode", "chosen_at"))
_INHERIT = insert_ignore(chat_busy_mode)
_FORGET = sa.delete(chat_busy_mode).where(*_OF_CHAT)


def chosen(conn: Connection, profile: str, session_key: str) -> BusyMode | None:
    """What a chat has chosen, if it has."""
    row = _CHOSEN.rows(conn, {"of_profile": profile, "of_key": session_key}).one_or_none()
    return None if row is None else BusyMode(row.mode)


def choose(
    conn: Connection, profile: str, session_key: str, mode: BusyMode | None, now: datetime
) -> None:
    """Choose for a chat; None is what is configured."""
    if mode is None:
        conn.execute(_FORGET, {"of_profile": profile, "of_key": session_key})
    else:
        conn.execute(_CHOOSE, _row(profile, session_key, mode, now))


def inherit(conn: Connection, profile: str, session_key: str, of_key: str, now: datetime) -> None:
    """Let a chat that has chosen nothing have what another one has chosen."""
    mode = chosen(conn, profile, of_key)
    if mode is not None:
        conn.execute(_INHERIT, _row(profile, session_key, mode, now))


def _row(profile: str, session_key: str, mode: BusyMode, now: datetime) -> dict[str, object]:
    return {"profile": profile, "session_key": session_key, "mode": mode.value, "chosen_at": now}
