"""Conversations that lie in the agent's database already."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.records.model import encoded
from agent_service.records.search_query import terms
from agent_service.storage.schema import message, session
from agent_service.storage.search import index
from agent_service.storage.search.index import Entry
from services.database import Database, Prepared

OLD = "formerly"
"""A word of every other message of the older half, and of no newer one."""
A_SESSION = 20
"""Messages."""

_INSERT_SESSION, _INSERT_MESSAGE = Prepared(sa.insert(session)), Prepared(sa.insert(message))
_WORDS = 20_000
_LENGTHS = (8, 30, 60, 120, 250)
_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def agent_database(home: Path) -> AsyncGenerator[Database]:
    """The database of the agent in a home that has been used, and in which nothing runs."""
    async with Database(f"sqlite:///{home}/state/agent.db", "agent") as database:
        yield database


class Corpus:
    """Messages whose words are as frequent as those of a language, always the same ones."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._random = random.Random(1)
        self._words = [f"w{number}" for number in range(_WORDS)]
        self._weights = list(accumulate(1 / (number + 1) for number in range(_WORDS)))

    def text(self, number: int) -> str:
        """What a message says."""
        length = self._random.choice(_LENGTHS)
        said = self._random.choices(self._words, cum_weights=self._weights, k=length)
        if number % 2 and number < self.count // 2:
            said.append(OLD)
        return " ".join(said)


def fill(conn: Connection, corpus: Corpus, first: int, count: int) -> None:
    """Store messages, as turns do."""
    for number in range(first, first + count):
        sequence = number % A_SESSION + 1
        session_id, now = f"s{number // A_SESSION}", _BEGUN + timedelta(seconds=40 * number)
        if sequence == 1:
            _INSERT_SESSION.run(conn, _session(session_id, now))
        text = corpus.text(number)
        role = "assistant" if number % 2 else "user"
        content = encoded({"role": role, "content": text}).decode()
        _INSERT_MESSAGE.run(
            conn,
            {
                "session_id": session_id,
                "sequence": sequence,
                "turn_id": "",
                "role": role,
                "content": content,
                "reasoning": "",
                "created_at": now,
            },
        )
        entry = Entry(sequence, role, terms(text), now)
        index.add(conn, "default", session_id, [entry])


def _session(session_id: str, now: datetime) -> dict[str, Any]:
    return {
        "id": session_id,
        "profile": "default",
        "platform": "cli",
        "title": session_id,
        "system_prompt": "",
        "workdir": "",
        "message_count": A_SESSION,
        "usage": {},
        "created_at": now,
        "updated_at": now,
    }
