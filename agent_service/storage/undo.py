"""Takes back the last messages of a session: no longer sent or found, but kept."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.compression import NOTHING
from agent_service.records.requests import NOTICE
from agent_service.records.search_query import text_of
from agent_service.storage.schema import message, session, turn, undone_message
from agent_service.storage.search import index
from agent_service.storage.session_changes import hold, hold_idle
from agent_service.storage.sessions import revision_after
from services.database import UtcTime
from services.errors import FailedPrecondition

NOTHING_TO_RETRY = "nothing was said here yet that could be said again"

_IS_NOTICE = turn.c.kind == sa.literal_column(f"'{NOTICE}'")
_SAID_TURNS = (
    sa.select(message.c.turn_id, sa.func.min(message.c.sequence).label("first"))
    .where(
        message.c.session_id == bindparam("session_id"),
        ~sa.exists().where(turn.c.id == message.c.turn_id, _IS_NOTICE),
    )
    .group_by(message.c.turn_id)
    .order_by(sa.desc("first"))
    .limit(bindparam("most"))
)
"""The last turns with a person's words; turns without go with the one before."""


class UndoRequest(Struct, frozen=True):
    """What is to be taken back."""

    session_id: str
    profile: str
    undo_id: str
    """Repeats with the same id take nothing more back."""
    turns: int = 1
    expected: int = 0
    """The number of messages that the session must have; 0 means any."""


class UndoResult(Struct, frozen=True):
    """What was taken back."""

    turn_count: int
    message_count: int
    user_text: str
    """The person's words in the first turn that was taken back."""


class RetryResult(Struct, frozen=True):
    """What a turn repeats, and the session without what it takes back."""

    content: Any
    message_count: int
    revision: int
    turn_id: str
    """The turn that said it before."""


def undo(conn: Connection, wanted: UndoRequest, now: datetime) -> UndoResult:
    """Take back the last turns: their messages are removed, but their effects stay."""
    hold(conn, wanted.session_id, wanted.profile)
    undone = (
        sa.select(undone_message.c.turn_id, undone_message.c.sequence, undone_message.c.content)
        .where(
            undone_message.c.session_id == wanted.session_id,
            undone_message.c.undo_id == wanted.undo_id,
            ~sa.exists().where(turn.c.id == undone_message.c.turn_id, _IS_NOTICE),
        )
        .order_by(undone_message.c.sequence)
    )
    if known := conn.execute(undone).all():
        left = known[0].sequence - 1
        return UndoResult(len({one.turn_id for one in known}), left, _said(known[0].content))
    row = hold_idle(conn, wanted.session_id, wanted.profile)
    if wanted.expected and row.message_count != wanted.expected:
        raise FailedPrecondition(
            f"session {row.id} has {row.message_count} messages, not {wanted.expected}"
        )
    last = _last_turns(conn, row.id, wanted.turns)
    if not last:
        return UndoResult(0, row.message_count, "")
    first = min(found.first for found in last)
    began = _message(conn, row.id, first)
    _take_back(conn, row.id, row, first - 1, wanted.undo_id, now)
    return UndoResult(len(last), first - 1, _said(began.content))


def retry(conn: Connection, begun: sa.Row[Any], now: datetime) -> RetryResult:
    """Take back a person's last message and all that followed, at the start of a turn.

    The turn has locked the session.
    """
    began = _last_said(conn, begun.session_id)
    if began is None:
        raise FailedPrecondition(NOTHING_TO_RETRY)
    left = began.sequence - 1
    revision = _take_back(conn, begun.session_id, begun, left, begun.id, now)
    return RetryResult(json.loads(began.content)["content"], left, revision, began.turn_id)


def check_retry(conn: Connection, session_id: str) -> None:
    """Raise FailedPrecondition if the session has no message to repeat."""
    if _last_said(conn, session_id) is None:
        raise FailedPrecondition(NOTHING_TO_RETRY)


def _last_turns(conn: Connection, session_id: str, most: int) -> Sequence[sa.Row[*tuple[Any, ...]]]:
    return conn.execute(_SAID_TURNS, {"session_id": session_id, "most": most}).all()


def _last_said(conn: Connection, session_id: str) -> sa.Row[*tuple[Any, ...]] | None:
    for found in _last_turns(conn, session_id, 1):
        began = _message(conn, session_id, found.first)
        return began if began.role == "user" else None
    return None


def _take_back(
    conn: Connection, session_id: str, row: sa.Row[Any], after: int, undo_id: str, now: datetime
) -> int:
    index.remove(conn, session_id, after)
    taken = message.c.session_id == session_id, message.c.sequence > after
    kept = sa.select(*message.columns, sa.literal(undo_id), sa.literal(now, UtcTime()))
    columns = [*message.c.keys(), "undo_id", "undone_at"]
    conn.execute(sa.insert(undone_message).from_select(columns, kept.where(*taken)))
    conn.execute(sa.delete(message).where(*taken))
    revised = revision_after(row.revision, now)
    left: dict[str, Any] = {"message_count": after, "revision": revised, "updated_at": now}
    if not row.compression.is_of(after):
        left["compression"] = NOTHING  # its summary still contains what was taken back
    conn.execute(sa.update(session).where(session.c.id == session_id).values(left))
    return revised


def _message(conn: Connection, session_id: str, sequence: int) -> sa.Row[Any]:
    place = message.c.session_id == session_id, message.c.sequence == sequence
    return conn.execute(sa.select(message).where(*place)).one()


def _said(content: str) -> str:
    said = json.loads(content)
    return text_of(said["content"]) if said["role"] == "user" else ""
