"""Finding what was said among many messages, and storing one more of them."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import ceil
from time import perf_counter
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.models.base import encoded
from agent_service.search.query import parse
from agent_service.search.terms import terms
from agent_service.storage import migrations, search, search_index
from agent_service.storage.schema import message, metadata, session
from agent_service.storage.search import Hit, Wanted
from agent_service.storage.search_index import Entry
from services.database import Database
from services.migrations import prepare
from tests.bench.figures import Plan, Reading, Spread
from tests.postgres import postgres_server

_MESSAGES = 100_000
_MESSAGES_PER_SAMPLE = 500
"""200 samples are the full size."""
_LEAST = 10_000
"""Fewer have not every word that is looked for."""
_A_SESSION = 20
_TOGETHER = 500
_WORDS = 20_000
_LENGTHS = (8, 30, 60, 120, 250)
_BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
_PAGE = 20
_OLD = "formerly"
"""A word of every other message of the older half, and of no newer one."""
_QUERIES = (
    *("w0", "w1", "w2", "w10", "w100", "w1000", "w9000", _OLD),
    *("w0 w1", "w3 w50", '"w0 w1"', '"w1 w0 w2"', "w0 w1 w2 w3", "w5000 OR w6000", "absent"),
)
"""The commonest word first."""

_Find = Callable[[Connection, Wanted, int], list[Hit]]


class _Corpus:
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
            said.append(_OLD)
        return " ".join(said)


def keys_of(kind: str) -> tuple[str, str, str]:
    """The figures that are measured on a kind of database."""
    return f"search_newest_{kind}_ms", f"search_relevance_{kind}_ms", f"append_ms_p99_{kind}"


async def sqlite(plan: Plan) -> list[Reading]:
    """Measure on SQLite."""
    return await _measure(plan, "sqlite", f"sqlite:///{plan.folder}/search.db")


async def postgresql(plan: Plan) -> list[Reading]:
    """Measure on PostgreSQL, which keeps all that it has been told."""
    # What a server has where nobody says otherwise.
    with (
        postgres_server({"fsync": "on", "shared_buffers": "128MB"}) as server,
        server.database() as url,
    ):
        return await _measure(plan, "postgresql", url)


async def _measure(plan: Plan, kind: str, url: str) -> list[Reading]:
    corpus = _Corpus(min(_MESSAGES, max(_LEAST, plan.samples * _MESSAGES_PER_SAMPLE)))
    async with Database(url, "agent") as database:
        await prepare(database, metadata, migrations)
        begun = perf_counter()
        for first in range(0, corpus.count, _TOGETHER):
            await database.write(lambda conn, first=first: _fill(conn, corpus, first, _TOGETHER))
        note = f"{corpus.count} messages, stored in {perf_counter() - begun:.0f} s"
        newest, slowest = await _searches(plan, database, search.newest)
        ranked, worst = await _searches(plan, database, search.most_relevant)
        appended = await _appends(plan, database, corpus)
    newest_key, relevance_key, append_key = keys_of(kind)
    p99 = sorted(appended)[ceil(len(appended) * 0.99) - 1]
    return [
        Reading(newest_key, newest, f"{note}; slowest {slowest}"),
        Reading(relevance_key, ranked, f"slowest {worst}"),
        Reading(
            append_key,
            round(p99, 3),
            f"{len(appended)}; p50 {sorted(appended)[len(appended) // 2]:.2f}, "
            f"longest {max(appended):.1f} ms",
        ),
    ]


async def _searches(plan: Plan, database: Database, find: _Find) -> tuple[Spread, str]:
    """The spread over all queries, and which one took longest in the middle."""
    taken: dict[str, list[float]] = {text: [] for text in _QUERIES}
    for _ in range(max(1, plan.samples // 5)):
        for text in _QUERIES:
            wanted = Wanted("default", parse(text))
            begun = perf_counter()
            hits = await database.read(lambda conn, wanted=wanted: find(conn, wanted, _PAGE))
            taken[text].append((perf_counter() - begun) * 1000)
            assert (not hits) == (text == "absent"), text
    middle = {text: Spread.of(times).p50 for text, times in taken.items()}
    slowest = max(middle, key=middle.__getitem__)
    every = [time for times in taken.values() for time in times]
    return Spread.of(every), f"{slowest!r} {middle[slowest]:.1f} ms"


async def _appends(plan: Plan, database: Database, corpus: _Corpus) -> list[float]:
    times: list[float] = []
    for number in range(plan.samples * 10):
        begun = perf_counter()
        await database.write(
            lambda conn, number=number: _fill(conn, corpus, corpus.count + number, 1)
        )
        times.append((perf_counter() - begun) * 1000)
    return times


def _fill(conn: Connection, corpus: _Corpus, first: int, count: int) -> None:
    """Store messages, as turns do."""
    for number in range(first, first + count):
        sequence = number % _A_SESSION + 1
        session_id, now = f"s{number // _A_SESSION}", _BEGUN + timedelta(seconds=40 * number)
        if sequence == 1:
            conn.execute(sa.insert(session), _session(session_id, now))
        text = corpus.text(number)
        role = "assistant" if number % 2 else "user"
        content = encoded({"role": role, "content": text}).decode()
        conn.execute(
            sa.insert(message),
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
        search_index.add(conn, "default", session_id, [entry])


def _session(session_id: str, now: datetime) -> dict[str, Any]:
    return {
        "id": session_id,
        "profile": "default",
        "platform": "cli",
        "title": session_id,
        "system_prompt": "",
        "workdir": "",
        "message_count": _A_SESSION,
        "usage": {},
        "approved_tools": [],
        "created_at": now,
        "updated_at": now,
    }
