"""Several agents on one database: what is asked of one about a turn that another one owns."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agent_service.storage import schema
from hermes.agent.v1 import turn_pb2
from hermes.common.v1.content_pb2 import MessagePart
from services.database import Database
from tests.fakes.turns import served_turns
from tests.integration.agent_parts import AgentClient, kinds
from tests.integration.test_agent_takeover import Stage, staged, steps

LONGEST_S = 20
HANGS: dict[str, Any] = {"text": "well, what do you want?", "hang_after": 2}


@pytest.fixture
async def stage(tmp_path: Path, postgres_url: str) -> AsyncIterator[Stage]:
    async with staged(tmp_path, postgres_url, steps(HANGS)) as made:
        yield made


@asynccontextmanager
async def owned_elsewhere(
    stage: Stage, url: str, endpoint: str
) -> AsyncGenerator[tuple[AgentClient, str]]:
    """A client of an agent, and a turn that somebody at the endpoint owns."""
    async with (
        stage.agent("first") as first,
        stage.agent("second") as second,
        first.client() as before,
        second.client() as after,
    ):
        turn_id = (await before.start("go")).turn_id
        await stage.model.until(lambda: len(stage.model.requests) == 1)
        first.signal(signal.SIGSTOP)
        async with Database(url, "agent") as database:
            moved = sa.update(schema.turn).values(
                owner_endpoint=endpoint, lease_until=sa.func.now() + sa.text("interval '1 hour'")
            )
            await database.write(lambda conn: conn.execute(moved))
        yield after, turn_id


async def test_text_is_seen_while_it_comes(stage: Stage) -> None:
    async with (
        asyncio.timeout(LONGEST_S),
        stage.agent("first") as first,
        stage.agent("second") as second,
        first.client() as before,
        second.client() as after,
    ):
        turn_id = (await before.start("go")).turn_id
        event = await after.until(turn_id, "text_delta", "text_snapshot")
        assert HANGS["text"].startswith(event.text_delta.text or event.text_snapshot.text)


async def test_the_owner_hears_of_an_interrupt(
    stage: Stage, tmp_path: Path, postgres_url: str
) -> None:
    async with (
        asyncio.timeout(LONGEST_S),
        served_turns(address=f"unix:{tmp_path}/owner.sock") as (owner, endpoint),
        owned_elsewhere(stage, postgres_url, endpoint) as (client, turn_id),
    ):
        owner.requests[turn_id] = turn_pb2.StartTurnRequest(parts=[MessagePart(text="wait")])
        await client.turns.InterruptTurn(turn_pb2.InterruptTurnRequest(turn_id=turn_id))
        while owner.stopped != [turn_id]:  # noqa: ASYNC110 - the fake does not tell
            await asyncio.sleep(0.01)
        assert owner.stopped == [turn_id]


async def test_a_turn_is_watched_where_it_is_owned_meanwhile(
    stage: Stage, tmp_path: Path, postgres_url: str
) -> None:
    async with (
        asyncio.timeout(LONGEST_S),
        served_turns(address=f"unix:{tmp_path}/owner.sock") as (owner, endpoint),
        owned_elsewhere(stage, postgres_url, endpoint) as (client, turn_id),
    ):
        owner.requests[turn_id] = turn_pb2.StartTurnRequest(parts=[MessagePart(text="wait")])
        watching = asyncio.create_task(client.watch(turn_id))
        await owner.watched(turn_id, 1)
        assert owner.watched_after[turn_id] == [1]
        # The owner says nothing more, and is not the owner any more.
        async with Database(postgres_url, "agent") as database:
            freed = sa.update(schema.turn).values(
                owner=None, lease_until=None, cancel_requested=True, state="CANCELLING"
            )
            await database.write(lambda conn: conn.execute(freed))
        events = await watching
        assert [e.text_delta.text for e in events if e.HasField("text_delta")] == ["…"]
        assert kinds(events) == ["turn_started", "turn_finished"]


async def test_an_owner_that_cannot_be_reached_is_not_waited_for(
    stage: Stage, tmp_path: Path, postgres_url: str
) -> None:
    endpoint = f"unix:{tmp_path / 'nobody.sock'}"
    async with (
        asyncio.timeout(LONGEST_S),
        owned_elsewhere(stage, postgres_url, endpoint) as (client, turn_id),
    ):
        event = await client.until(turn_id, "turn_started")
        assert event.sequence == 1
