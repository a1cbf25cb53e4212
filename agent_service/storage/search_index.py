"""Keeps the index of what was said, in the transaction that stores or removes it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.search.query import searchable, terms
from agent_service.storage.schema import message, session
from agent_service.storage.search_marks import pairs
from agent_service.storage.search_schema import message_text
from services.database import Prepared, insert_ignore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_MICROSECOND = 1024
"""Ids that are there for each microsecond."""
_PAGE = 200
_MANY = 8
"""From so many on it pays to look afterwards which of them are missing."""

_INSERT = Prepared(insert_ignore(message_text))
_KNOWN = sa.select(message_text.c.id).where(
    message_text.c.session_id == bindparam("session_id"),
    message_text.c.sequence == bindparam("sequence"),
)
_SEQUENCES = sa.select(message_text.c.sequence).where(
    message_text.c.session_id == bindparam("session_id")
)
_REMOVE = sa.delete(message_text).where(
    message_text.c.session_id == bindparam("of_session"),
    message_text.c.sequence > bindparam("after"),
)
_PROFILE = sa.select(session.c.profile).where(session.c.id == bindparam("session_id"))
_STORED = (
    sa.select(message.c.sequence, message.c.role, message.c.content, message.c.created_at)
    .where(message.c.session_id == bindparam("session_id"), message.c.sequence > bindparam("after"))
    .order_by(message.c.sequence)
    .limit(_PAGE)
)


class Entry(Struct, frozen=True):
    """A message as it is found."""

    sequence: int
    role: str
    terms: str
    created_at: datetime


def id_at(moment: datetime) -> int:
    """The first id of messages of a time."""
    return (moment - _EPOCH) // _MICROSECOND * _PER_MICROSECOND


def token(kind: str, value: str) -> str:
    """What messages of a profile, session or role have in their scope; no word looks like it."""
    return f"{kind}{hashlib.blake2s(value.encode(), digest_size=8).hexdigest()}"


def add(
    conn: Connection,
    profile: str,
    session_id: str,
    entries: Iterable[Entry],
    *,
    is_copy: bool = False,
) -> None:
    """Index a session's messages; a copy is only found where its session is searched."""
    whose = "" if is_copy else f"{token('P', profile)} "
    within = token("S", session_id)
    has_places = conn.dialect.name == "sqlite"
    rows: list[dict[str, Any]] = [
        {
            "id": id_at(entry.created_at) + entry.sequence % _PER_MICROSECOND,
            "profile": profile,
            "session_id": session_id,
            "sequence": entry.sequence,
            "scope": " ".join(
                [f"{whose}{within}", token("R", entry.role)]
                + ([] if has_places else pairs(entry.terms))
            ),
            "terms": entry.terms,
        }
        for entry in entries
    ]
    if len(rows) >= _MANY:
        _INSERT.run_all(conn, rows)
        known = set(conn.scalars(_SEQUENCES, {"session_id": session_id}))
        rows = [row for row in rows if row["sequence"] not in known]
    for row in rows:
        # Another session may have said something in the same microsecond.
        while not _INSERT.run(conn, row) and not _is_known(conn, row):
            row["id"] += 1


def remove(conn: Connection, session_id: str, after: int = 0) -> None:
    """Take the messages after a sequence out."""
    conn.execute(_REMOVE, {"of_session": session_id, "after": after})


def index_session(conn: Connection, session_id: str, *, is_copy: bool = False) -> None:
    """Index all messages of a session; those that are indexed stay as they are."""
    profile = conn.execute(_PROFILE, {"session_id": session_id}).scalar_one()
    after = 0
    while rows := conn.execute(_STORED, {"session_id": session_id, "after": after}).all():
        add(conn, profile, session_id, [_entry(row) for row in rows], is_copy=is_copy)
        after = rows[-1].sequence


def _is_known(conn: Connection, row: Mapping[str, Any]) -> bool:
    key = {"session_id": row["session_id"], "sequence": row["sequence"]}
    return conn.execute(_KNOWN, key).first() is not None


def _entry(row: sa.Row[*tuple[Any, ...]]) -> Entry:
    said = terms(searchable(json.loads(row.content)))
    return Entry(row.sequence, row.role, said, row.created_at)
