"""Conversations that have become long, and many that are open at once."""

import asyncio

from sqlalchemy import Connection

from tests.bench.conversation import conversation
from tests.bench.figures import Plan, Reading, Spread
from tests.bench.hermes import Hermes, hermes, started
from tests.bench.model_call import conversation as long_conversation
from tests.bench.model_process import PLAIN, SLOW_S, model_process
from tests.bench.past import agent_database
from tests.bench.startup import memory_mb
from tests.bench.turns import PLAIN_TURNS
from tests.integration.agent_history import store

_MESSAGES = 2_000
_CONFIG = "models: {scripted: {window: 10000000}}\n"
"""So that nothing is condensed before it is asked for."""
_SESSIONS_PER_REPEAT = 20
"""200 samples are 200 sessions."""


async def compression(plan: Plan) -> list[Reading]:
    """Measure what condensing 2,000 messages takes, from `/compress` to its end, less the model."""
    home = plan.folder / "compression"
    sessions = [f"long-{number}" for number in range(plan.repeats)]
    said = long_conversation(_MESSAGES + 1)[1:]

    def fill(conn: Connection) -> None:
        for session_id in sessions:
            store(conn, session_id, said, is_indexed=False)

    async with model_process() as url:
        async with started(home, url):
            pass  # makes the home
        await asyncio.to_thread((home / "config.yaml").write_text, _CONFIG)
        async with agent_database(home) as database:
            await database.write(fill)
        async with hermes(home, url) as running:
            added_ms = [await _condensed_ms(running, session_id) for session_id in sessions]
    spread = Spread.of(added_ms)
    return [Reading("compression_added_ms", spread, f"{_MESSAGES} messages")]


async def _condensed_ms(running: Hermes, session_id: str) -> float:
    async with conversation(running.channels, session_id=session_id) as talk:
        await talk.ask(PLAIN)
        return (await talk.ask("/compress")).last_ms - SLOW_S * 1_000


async def memory(plan: Plan) -> list[Reading]:
    """Measure how much memory a conversation that is going on takes."""
    count = plan.repeats * _SESSIONS_PER_REPEAT
    async with model_process() as url, hermes(plan.folder / "memory", url) as running:
        process = running.started.process
        await _talk(running, 1)
        before_mb = await memory_mb(process)
        await _talk(running, count)
        after_mb = await memory_mb(process)
    note = f"{count} sessions of {2 * PLAIN_TURNS} messages; {before_mb:.0f} MB before"
    return [Reading("session_rss_mb", round((after_mb - before_mb) / count, 3), note)]


async def _talk(running: Hermes, sessions: int) -> None:
    for _ in range(sessions):
        async with conversation(running.channels, PLAIN_TURNS):
            pass
