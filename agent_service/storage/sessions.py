"""Sessions and their messages, as they are listed and shown."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection, bindparam

from agent_service.records.compression import NOTHING
from agent_service.records.requests import BATCH, JOBS, REVIEW
from agent_service.records.usage import Usage
from agent_service.security import url_provenance
from agent_service.storage.schema import message, session, session_state
from services.database import Prepared, UtcTime, upsert
from services.errors import NotFound

NOTICES = "notices"
"""The session value with notices for the person, shown with the next answer."""
OVERLAY = "overlay"
"""The session value with what requests contain besides the prompt and messages."""
MEMORY_LIMITS = "memory_limits"
"""The session value with the memory limits that it was told, by name."""
TOKENS_PER_BYTE = "tokens_per_byte"
"""The session value with the ratio in its last request as the provider counted it."""
MODEL = "model"
"""The session value with the id of the model that a person chose."""
SKIPS_CONTEXT_FILES = "skips_context_files"
"""The session value that says whether context files of its folders are left out."""


class SessionInfo(Struct, frozen=True):
    """A session without its messages."""

    session_id: str
    title: str
    platform: str
    create_time: datetime
    update_time: datetime
    message_count: int
    usage: Usage
    parent_session_id: str
    is_named: bool
    model: str = ""
    """The model that a person chose; empty means the configured one."""
    workdir: str = ""
    """The host folder at its /workspace; empty means that it has a workspace of its own."""


class StoredMessage(Struct, frozen=True):
    """One message; `content` has the form of the chat completions API."""

    sequence: int
    turn_id: str
    content: dict[str, Any]
    reasoning: str
    created_at: datetime


given_model = (
    sa.select(session_state.c.value)
    .where(session_state.c.session_id == session.c.id, session_state.c.name == MODEL)
    .scalar_subquery()
    .label("model")
)
_BY_ID = Prepared(sa.select(session, given_model).where(session.c.id == bindparam("id")))
_HAS_PROMPT = Prepared(
    sa.select(session.c.system_prompt != "").where(session.c.id == bindparam("id"))
)
_MESSAGES = (
    sa.select(message.c.sequence, message.c.turn_id, message.c.content, message.c.reasoning)
    .add_columns(message.c.created_at)
    .where(message.c.session_id == bindparam("session_id"), message.c.sequence > bindparam("after"))
    .order_by(message.c.sequence)
    .limit(bindparam("most"))
)
TAINT = "taint"
"""The session value with the sources of untrusted data."""

_STATE = Prepared(
    sa.select(session_state.c.value).where(
        session_state.c.session_id == bindparam("session_id"),
        session_state.c.name == bindparam("name"),
    )
)
_PUT_STATE = Prepared(upsert(session_state, ("session_id", "name"), ("value",)))


def copy(table: sa.Table, *where: sa.ColumnElement[bool], **made: Any) -> sa.Insert:
    """Return a statement that copies rows, with some values replaced."""
    values = {name: sa.literal(value, table.c[name].type) for name, value in made.items()}
    columns = [values.get(column.name, column) for column in table.columns]
    return sa.insert(table).from_select(table.c.keys(), sa.select(*columns).where(*where))


def new_session(
    session_id: str, profile: str, platform: str, now: datetime, **values: Any
) -> dict[str, Any]:
    """Return the row of a new session."""
    begun = {
        "id": session_id,
        "profile": profile,
        "platform": platform,
        "title": "",
        "system_prompt": "",
        "workdir": "",
        "sandbox_template": "",
        "message_count": 0,
        "usage": Usage(),
        "compression": NOTHING,
        "parent_session_id": None,
        "is_named": False,
        "revision": revision_after(-1, now),
        "created_at": now,
        "updated_at": now,
    }
    return begun | values


def revision_after(revision: int, now: datetime) -> int:
    """Return a session's next revision; unique even if the clock goes back."""
    return max(revision + 1, round(now.timestamp() * 1000))


def get(conn: Connection, session_id: str, profile: str) -> SessionInfo:
    """Return a session; NotFound if the profile has no such session."""
    row = _BY_ID.rows(conn, {"id": session_id}).one_or_none()
    if row is None or row.profile != profile:
        raise NotFound(f"there is no session {session_id}")
    return _info(row)


def has_begun(conn: Connection, session_id: str) -> bool:
    """Return whether a session exists and has its prompt."""
    return bool(_HAS_PROMPT.rows(conn, {"id": session_id}).scalar_one_or_none())


def list_by_use(
    conn: Connection,
    profile: str,
    platform: str,
    before: tuple[datetime, str] | None,
    most: int,
    title: str = "",
    *,
    without_jobs: bool = False,
) -> Sequence[SessionInfo]:
    """Return the most recently used sessions, or those used before `before`."""
    # Nobody talked in sessions of reviews and batches, so they are only listed on request.
    its_platform = session.c.platform
    found = sa.select(session, given_model).where(
        session.c.profile == profile,
        its_platform == platform if platform else its_platform.not_in((REVIEW, BATCH)),
    )
    if title:
        is_title = session.c.title == title, sa.func.lower(session.c.title) == title.lower()
        found = found.where(sa.or_(*is_title))
    if without_jobs:
        found = found.where(~session.c.id.startswith(JOBS, autoescape=True))
    if before is not None:
        place = sa.tuple_(session.c.updated_at, session.c.id)
        found = found.where(place < sa.tuple_(sa.literal(before[0], UtcTime()), before[1]))
    newest = found.order_by(session.c.updated_at.desc(), session.c.id.desc())
    return [_info(row) for row in conn.execute(newest.limit(most))]


def messages(
    conn: Connection, session_id: str, profile: str, after: int, most: int
) -> Sequence[StoredMessage]:
    """Return the session's messages after a sequence, in order."""
    get(conn, session_id, profile)
    return [
        StoredMessage(
            row.sequence, row.turn_id, json.loads(row.content), row.reasoning, row.created_at
        )
        for row in conn.execute(_MESSAGES, {"session_id": session_id, "after": after, "most": most})
    ]


def get_state(conn: Connection, session_id: str, name: str) -> Any:
    """Return a session value, or None."""
    return _STATE.rows(conn, {"session_id": session_id, "name": name}).scalar_one_or_none()


def notices(conn: Connection, session_id: str, message_count: int) -> tuple[str, ...]:
    """Return notices for the person, shown with the answer to the next message."""
    kept: dict[str, Any] = get_state(conn, session_id, NOTICES) or {}
    return tuple(kept["texts"]) if kept.get("after") == message_count else ()


def add_texts(conn: Connection, session_id: str, name: str, texts: Iterable[str]) -> None:
    """Add texts to a session value that is a set."""
    known: list[str] = get_state(conn, session_id, name) or []
    put_state(conn, session_id, name, sorted({*known, *texts}))


def add_links(conn: Connection, session_id: str, keys: Iterable[str]) -> None:
    """Add links to a session; the oldest are dropped first."""
    keys = tuple(keys)
    if not keys:
        return
    known: list[str] = get_state(conn, session_id, url_provenance.STATE) or []
    if (kept := url_provenance.merged(known, keys)) != known:
        put_state(conn, session_id, url_provenance.STATE, kept)


def put_state(conn: Connection, session_id: str, name: str, value: Any) -> None:
    """Store a session value."""
    _PUT_STATE.run(conn, {"session_id": session_id, "name": name, "value": value})


def _info(row: sa.Row[Any]) -> SessionInfo:
    return SessionInfo(
        session_id=row.id,
        title=row.title,
        platform=row.platform,
        create_time=row.created_at,
        update_time=row.updated_at,
        message_count=row.message_count,
        usage=row.usage,
        parent_session_id=row.parent_session_id or "",
        is_named=row.is_named,
        model=row.model or "",
        workdir=row.workdir,
    )
