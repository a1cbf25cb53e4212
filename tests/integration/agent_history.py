"""Conversations that are in the agent's database already."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.records.model import encoded
from agent_service.records.search_query import searchable, terms
from agent_service.records.usage import Usage
from agent_service.storage import migrations
from agent_service.storage.schema import message, session
from agent_service.storage.search import index
from agent_service.storage.search.index import Entry
from services.database import Database
from services.database.migrations import prepare

BEGUN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@asynccontextmanager
async def history(url: str) -> AsyncGenerator[Database]:
    async with Database(url, "agent") as database:
        await prepare(database, migrations)
        yield database


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    """A message in the form of the chat completions API."""
    return {"role": role, "content": text, **more}


def store(
    conn: Connection,
    session_id: str,
    messages: Sequence[dict[str, Any]],
    *,
    profile: str = "default",
    begun: datetime = BEGUN,
    is_indexed: bool = True,
) -> None:
    """A session whose messages came a minute apart, each user's in a turn of its own."""
    conn.execute(sa.insert(session), _session(session_id, profile, len(messages), begun))
    turn = 0
    rows: list[dict[str, Any]] = []
    entries: list[Entry] = []
    for sequence, content in enumerate(messages, 1):
        role, at = content["role"], begun + timedelta(minutes=sequence - 1)
        turn += role == "user"
        rows.append(
            {
                "session_id": session_id,
                "sequence": sequence,
                "turn_id": f"{session_id}-{turn}",
                "role": role,
                "content": encoded(content).decode(),
                "reasoning": "",
                "created_at": at,
            }
        )
        entries.append(Entry(sequence, role, terms(searchable(content)), at))
    if rows:
        conn.execute(sa.insert(message), rows)
    if is_indexed:
        index.add(conn, profile, session_id, entries)


def _session(session_id: str, profile: str, count: int, begun: datetime) -> dict[str, Any]:
    return {
        "id": session_id,
        "profile": profile,
        "platform": "cli",
        "title": f"about {session_id}",
        "system_prompt": "prompt",
        "workdir": "",
        "message_count": count,
        "usage": Usage(),
        "created_at": begun,
        "updated_at": begun + timedelta(minutes=max(0, count - 1)),
    }
