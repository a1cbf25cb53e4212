"""Finding what was said among many messages, and storing one more of them."""

import asyncio
import os
from asyncio import to_thread
from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter

import sqlalchemy as sa
from sqlalchemy import Connection

from agent_service.records.search_query import parse
from agent_service.storage import migrations
from agent_service.storage.search import queries
from agent_service.storage.search.index import SearchUpkeep
from agent_service.storage.search.queries import Hit, SearchQuery
from services.clock import SystemClock
from services.database import Database
from services.database.migrations import prepare
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.past import OLD, Corpus, fill
from tests.support.postgres import postgres_server

_MESSAGES = 100_000
_MESSAGES_PER_SAMPLE = 500
"""200 samples are the full size."""
_LEAST = 10_000
"""Fewer have not every word that is looked for."""
_TOGETHER = 500
_PAGE = 20
_IN_TURN = 10
_FLUSHED_BYTES = 65_536
"""About what storing a message writes."""
_QUERIES = (
    *("w0", "w1", "w2", "w10", "w100", "w1000", "w9000", OLD),
    *("w0 w1", "w3 w50", '"w0 w1"', '"w1 w0 w2"', "w0 w1 w2 w3", "w5000 OR w6000", "absent"),
)
"""The commonest word first."""

_Find = Callable[[Connection, SearchQuery, int], list[Hit]]


def keys_of(kind: str) -> tuple[str, str, str, str]:
    """The figures that are measured on a kind of database."""
    return (
        f"search_newest_{kind}_ms",
        f"search_relevance_{kind}_ms",
        f"append_ms_p99_{kind}",
        f"append_ms_longest_{kind}",
    )


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
    corpus = Corpus(min(_MESSAGES, max(_LEAST, plan.samples * _MESSAGES_PER_SAMPLE)))
    async with Database(url, "agent") as database:
        await prepare(database, migrations)
        upkeep = asyncio.create_task(SearchUpkeep(database, SystemClock()).run())
        begun = perf_counter()
        for first in range(0, corpus.count, _TOGETHER):
            await database.write(lambda conn, first=first: fill(conn, corpus, first, _TOGETHER))
        note = f"{corpus.count} messages, stored in {perf_counter() - begun:.0f} s"
        if kind == "postgresql":
            # As the server does by itself a minute after so much was stored.
            await database.write(lambda conn: conn.execute(sa.text("ANALYZE")))
        newest, slowest = await _searches(plan, database, queries.newest)
        ranked, worst = await _searches(plan, database, queries.most_relevant)
        appended, flushed = await _appends(plan, database, corpus)
        upkeep.cancel()
    newest_key, relevance_key, append_key, longest_key = keys_of(kind)
    return [
        Reading(newest_key, newest, f"{note}; slowest {slowest}"),
        Reading(relevance_key, ranked, f"slowest {worst}"),
        Reading(
            append_key,
            round(_p99(appended), 3),
            f"{_spread(appended)}; beside it fdatasync of {_FLUSHED_BYTES >> 10} kB: "
            f"p99 {_p99(flushed):.2f}, {_spread(flushed)}",
        ),
        Reading(longest_key, round(max(appended), 1), f"of {len(appended)}"),
    ]


async def _searches(plan: Plan, database: Database, find: _Find) -> tuple[Spread, str]:
    """The spread over all queries, and which one took longest in the middle."""
    taken: dict[str, list[float]] = {text: [] for text in _QUERIES}
    for _ in range(max(1, plan.samples // 5)):
        for text in _QUERIES:
            wanted = SearchQuery("default", parse(text))
            begun = perf_counter()
            hits = await database.read(lambda conn, wanted=wanted: find(conn, wanted, _PAGE))
            taken[text].append((perf_counter() - begun) * 1000)
            assert (not hits) == (text == "absent"), text
    middle = {text: Spread.of(times).p50 for text, times in taken.items()}
    slowest = max(middle, key=middle.__getitem__)
    every = [time for times in taken.values() for time in times]
    return Spread.of(every), f"{slowest!r} {middle[slowest]:.1f} ms"


async def _appends(
    plan: Plan, database: Database, corpus: Corpus
) -> tuple[list[float], list[float]]:
    """How long appends take, and in turn with them the disk alone."""
    appended: list[float] = []
    flushed: list[float] = []
    with (plan.folder / "flushed").open("wb", buffering=0) as file:
        for first in range(corpus.count, corpus.count + plan.samples * 10, _IN_TURN):
            for number in range(first, first + _IN_TURN):
                begun = perf_counter()
                await database.write(lambda conn, number=number: fill(conn, corpus, number, 1))
                appended.append((perf_counter() - begun) * 1000)
            flushed += [await to_thread(_flush, file.fileno()) for _ in range(_IN_TURN)]
    return appended, flushed


def _flush(file: int) -> float:
    os.pwrite(file, os.urandom(_FLUSHED_BYTES), 0)
    begun = perf_counter()
    os.fdatasync(file)
    return (perf_counter() - begun) * 1000


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[ceil(len(times) * 0.99) - 1]


def _spread(times: Sequence[float]) -> str:
    return f"{len(times)}; p50 {sorted(times)[len(times) // 2]:.2f}, longest {max(times):.1f} ms"
