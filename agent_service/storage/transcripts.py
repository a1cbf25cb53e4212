"""Sessions imported from documents of a home, and the headers of such documents."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from sqlalchemy import Connection

from agent_service.records.model import encoded
from agent_service.records.requests import TurnRequest
from agent_service.records.search_query import searchable, terms, text_of
from agent_service.records.titles import title_of
from agent_service.records.transcripts import Transcript
from agent_service.storage import sessions
from agent_service.storage.schema import message, session, transcript_import, turn
from agent_service.storage.search import index
from agent_service.storage.search.index import Entry
from agent_service.storage.sessions import TAINT
from services.database.sql import insert_ignore

MODEL = "transcript_model"
"""The session value with the model of messages that came without turns."""
_IMPORTED = "an imported conversation"


class ImportResult(Struct, frozen=True):
    """The outcome of an import."""

    session_id: str
    is_new: bool
    message_count: int
    problem: str = ""


class Header(Struct, frozen=True):
    """The part of a session's document before its messages."""

    session_id: str
    model: str
    title: str


def add(conn: Connection, profile: str, transcript: Transcript, now: datetime) -> ImportResult:
    """Store a new session; its prompt is made when it continues."""
    session_id, count = transcript.session_id, len(transcript.messages)
    if not conn.execute(insert_ignore(session), _session(profile, transcript, now)).rowcount:
        row = sa.select(session.c.profile, session.c.message_count)
        known = conn.execute(row.where(session.c.id == session_id)).one()
        if known.profile != profile:
            return ImportResult(session_id, False, 0, "its id cannot be used")
        return ImportResult(session_id, False, known.message_count)
    conn.execute(sa.insert(message), _messages(transcript))
    entries = [
        Entry(sequence, said.content["role"], terms(searchable(said.content)), said.created_at)
        for sequence, said in enumerate(transcript.messages, 1)
    ]
    index.add(conn, profile, session_id, entries)
    sessions.put_state(conn, session_id, MODEL, transcript.model)
    if any(said.content["role"] == "tool" for said in transcript.messages):
        # It is unknown which results contained untrusted data.
        sessions.add_texts(conn, session_id, TAINT, (_IMPORTED,))
    return ImportResult(session_id, True, count)


def header(conn: Connection, session_id: str, profile: str) -> Header:
    """Return the header of a session's document; NotFound if there is no session."""
    found = sessions.get(conn, session_id, profile)
    requests = sa.select(turn.c.request).where(turn.c.session_id == session_id)
    request: TurnRequest | None = conn.scalar(requests.order_by(turn.c.created_at.desc()).limit(1))
    model = request.options.model if request else sessions.get_state(conn, session_id, MODEL) or ""
    return Header(session_id, model, found.title if found.is_named else "")


def known_files(conn: Connection, profile: str) -> Collection[str]:
    """Return the files that were looked at before."""
    files = transcript_import.c
    return set(conn.scalars(sa.select(files.name).where(files.profile == profile)))


def note_file(conn: Connection, profile: str, name: str, imported: ImportResult) -> None:
    """Note that a file need not be looked at again."""
    row = {
        "profile": profile,
        "name": name,
        "session_id": imported.session_id,
        "problem": imported.problem,
    }
    conn.execute(insert_ignore(transcript_import), row)


def _session(profile: str, transcript: Transcript, now: datetime) -> dict[str, Any]:
    said = transcript.messages
    first = next((one for one in said if one.content["role"] == "user"), said[0])
    return sessions.new_session(
        transcript.session_id,
        profile,
        "import",
        now,
        title=transcript.title or title_of(text_of(first.content["content"])),
        message_count=len(said),
        is_named=bool(transcript.title),
        created_at=min(one.created_at for one in said),
        updated_at=max(one.created_at for one in said),
    )


def _messages(transcript: Transcript) -> list[dict[str, Any]]:
    """Return rows; each message of a person begins a turn, so that it can be taken back."""
    rows: list[dict[str, Any]] = []
    turn_count = 0
    for sequence, said in enumerate(transcript.messages, 1):
        role = said.content["role"]
        turn_count += role == "user"
        rows.append(
            {
                "session_id": transcript.session_id,
                "sequence": sequence,
                "turn_id": f"import_{turn_count}",
                "role": role,
                "content": encoded(said.content).decode(),
                "reasoning": said.reasoning,
                "created_at": said.created_at,
            }
        )
    return rows
