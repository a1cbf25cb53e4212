"""What an external memory has yet to take in of each session."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.records.requests import TurnRequest
from agent_service.storage.schema import message, session, session_state, turn
from agent_service.storage.sessions import get_state, put_state

DUE = "memory_due"
"""The session value that says that something was said since the last sync."""
THROUGH = "memory_through"
"""The session value with the time and number of the last message that was taken in."""

_DUE = (
    sa.select(session.c.id, session.c.profile)
    .join(session_state, session_state.c.session_id == session.c.id)
    .where(session_state.c.name == DUE)
    .limit(1000)
)


class SyncedMessage(Struct, frozen=True):
    """A message that a person or the agent wrote."""

    sequence: int
    created_at: datetime
    is_user: bool
    text: str


def mark(conn: Connection, session_id: str) -> None:
    """Note that something was said in a session."""
    put_state(conn, session_id, DUE, True)


def due(conn: Connection) -> Sequence[tuple[str, str]]:
    """Return the sessions of which something is to be taken in, and their profiles."""
    return [(row.id, row.profile) for row in conn.execute(_DUE)]


def claim(conn: Connection, session_id: str) -> bool:
    """Take a session's mark away; False if another replica was faster."""
    its = session_state.c.session_id == session_id, session_state.c.name == DUE
    return bool(conn.execute(sa.delete(session_state).where(*its)).rowcount)


def has_synced(conn: Connection, session_id: str, profile: str) -> bool:
    """Return whether something of the profile's session was taken in."""
    its = sa.select(session.c.id).where(session.c.id == session_id, session.c.profile == profile)
    return conn.scalar(its) is not None and get_state(conn, session_id, THROUGH) is not None


def unsynced(conn: Connection, session_id: str, most: int) -> Sequence[SyncedMessage]:
    """Return what people and the agent said in ended turns since the last sync, oldest first."""
    place = sa.tuple_(message.c.created_at, message.c.sequence)
    asked = (
        sa.select(message.c.sequence, message.c.created_at, message.c.content, turn.c.request)
        .join(turn, turn.c.id == message.c.turn_id)
        .where(
            message.c.session_id == session_id,
            message.c.role.in_(("user", "assistant")),
            turn.c.kind == "user",
            turn.c.finished_at.is_not(None),
        )
        .order_by(message.c.created_at, message.c.sequence)
        .limit(most)
    )
    if through := get_state(conn, session_id, THROUGH):
        at = sa.literal(datetime.fromisoformat(through[0]), message.c.created_at.type)
        asked = asked.where(place > sa.tuple_(at, through[1]))
    return [
        _message(row.sequence, row.created_at, row.content, row.request)
        for row in conn.execute(asked)
    ]


def note(conn: Connection, session_id: str, last: SyncedMessage) -> None:
    """Note that everything up to a message was taken in."""
    put_state(conn, session_id, THROUGH, [last.created_at.isoformat(), last.sequence])


def _message(
    sequence: int, created_at: datetime, content: str, request: TurnRequest
) -> SyncedMessage:
    said: dict[str, Any] = json.loads(content)
    is_user = said["role"] == "user"
    # A message without a time is not a person's.
    is_said = request.is_of_one_person and (not is_user or "sent_at" in said)
    text = _text(said["content"]) if is_said else ""
    return SyncedMessage(sequence, created_at, is_user, text)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(part["text"] for part in content or () if part["type"] == "text")
