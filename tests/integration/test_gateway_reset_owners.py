"""Sessions that end by themselves, whoever owns the account: once, also when owners are lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, cast

import grpc.aio
import pytest
import sqlalchemy as sa
from msgspec import Struct

from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.chats.resets import Resets
from gateway_service.clients import AgentClient
from gateway_service.config import Mode, ResetPolicy
from gateway_service.storage import chats, migrations
from gateway_service.storage.accounts import AccountLease, lease_table
from gateway_service.storage.accounts import add as add_account
from gateway_service.storage.schema import chat_session
from hermes.agent.v1 import session_pb2
from services.database import Database
from services.database.leases import Fenced, new_owner
from services.database.migrations import prepare
from tests.fakes.clock import ManualClock
from tests.fakes.turns import FakeTurns, served_turns

KEYS = [f"agent:main:memory:dm:{number}" for number in range(4)]
Context = grpc.aio.ServicerContext[Any, Any]


class _Sessions:
    """Knows every session but `empty`; `busy` ones are under way."""

    busy: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.broken: dict[str, grpc.StatusCode] = {}

    def handler(self) -> "grpc.GenericRpcHandler[Any, Any]":
        """Serves it as the agent does."""
        method = cast(
            "grpc.RpcMethodHandler[Any, Any]",
            grpc.unary_unary_rpc_method_handler(
                self._get,
                request_deserializer=session_pb2.GetSessionRequest.FromString,
                response_serializer=session_pb2.GetSessionResponse.SerializeToString,
            ),
        )
        name = "hermes.agent.v1.SessionService"
        return cast(
            "grpc.GenericRpcHandler[Any, Any]",
            grpc.method_handlers_generic_handler(name, {"GetSession": method}),
        )

    async def _get(
        self, request: session_pb2.GetSessionRequest, context: Context
    ) -> session_pb2.GetSessionResponse:
        if request.session_id in self.broken:
            await context.abort(self.broken[request.session_id], "it is broken")
        if request.session_id == "empty":
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such session")
        session = session_pb2.Session(session_id=request.session_id)
        is_busy = request.session_id in self.busy
        return session_pb2.GetSessionResponse(session=session, is_busy=is_busy)


class World(Struct):
    """A gateway's database, its agent, and a clock."""

    database: Database
    turns: FakeTurns
    sessions: _Sessions
    agent: AgentClient
    clock: ManualClock

    async def owner(self) -> Resets:
        """The next owner of the account, which the one before has lost."""
        leases = lease_table(30.0)

        def claim(conn: sa.Connection) -> AccountLease:
            add_account(conn, "memory:1")
            conn.execute(sa.text("UPDATE account SET owner = NULL"))
            lease = leases.claim(conn, "memory:1", new_owner("replica"))
            assert lease is not None
            return AccountLease("memory", "1", "default", self.database, leases, lease)

        policy = ResetPolicy(Mode.IDLE, idle=timedelta(hours=1))
        return Resets(await self.database.write(claim), self.agent, policy, self.clock, Hooks())

    async def chat(self, key: str, session_id: str) -> None:
        """A chat in which something is said now."""
        now = self.clock.now()
        await self.database.write(lambda conn: chats.put(conn, "default", key, session_id, now))

    async def sessions_of(self) -> dict[str, str]:
        """The chats' sessions."""
        query = sa.select(chat_session.c.session_key, chat_session.c.session_id)
        rows = await self.database.read(lambda conn: conn.execute(query).all())
        return {row.session_key: row.session_id for row in rows}

    async def resets(self) -> list[tuple[str, bool]]:
        """Which sessions have ended, and whether the agent was asked to look back."""
        ended = chat_session.c.ended_session_id
        query = sa.select(ended, chat_session.c.is_review_asked).where(ended.is_not(None))
        rows = await self.database.read(lambda conn: conn.execute(query).all())
        return sorted((row.ended_session_id, row.is_review_asked) for row in rows)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(database_url, "gateway"))
        await prepare(database, migrations)
        sessions = _Sessions()
        turns, address = await stack.enter_async_context(served_turns(sessions.handler()))
        channel = grpc.aio.insecure_channel(address)
        agent = AgentClient(await stack.enter_async_context(channel))
        yield World(database, turns, sessions, agent, ManualClock())


async def test_a_session_ends_when_its_time_has_come_and_not_before(world: World) -> None:
    owner = await world.owner()
    await world.chat(KEYS[0], "old")
    await world.clock.advance(3599)
    await owner.look()
    assert await world.resets() == []
    await world.clock.advance(1)
    await owner.look()
    await owner.look()
    assert await world.resets() == [("old", True)]
    assert (await world.sessions_of())[KEYS[0]] != "old"
    [request] = world.turns.requests.values()
    assert request.session_id == "old"
    # Nothing was said in the new one, so that it does not end, however long that lasts.
    await world.clock.advance(10 * 86_400)
    await owner.look()
    assert len(await world.resets()) == 1


async def test_what_is_busy_or_empty_stays(world: World) -> None:
    owner = await world.owner()
    world.sessions.busy = frozenset({"busy"})
    await world.chat(KEYS[0], "busy")
    await world.chat(KEYS[1], "empty")
    await world.clock.advance(3600)
    await owner.look()
    assert await world.sessions_of() == {KEYS[0]: "busy", KEYS[1]: "empty"}
    assert not world.turns.requests
    world.sessions.busy = frozenset()
    await owner.look()
    assert await world.resets() == [("busy", True)]


async def test_chats_that_cannot_end_do_not_hold_up_those_behind_them(world: World) -> None:
    owner = await world.owner()
    world.sessions.busy = frozenset({"busy"})
    world.sessions.broken = {
        "refused": grpc.StatusCode.INVALID_ARGUMENT,
        "late": grpc.StatusCode.DEADLINE_EXCEEDED,
    }
    for number, session_id in enumerate(("refused", "late", "busy", "old")):
        await world.chat(f"agent:main:memory:dm:{number}", session_id)
        await world.clock.advance(1)
    await world.clock.advance(3600)
    await owner.look()
    assert await world.resets() == [("old", True)]


async def test_of_two_owners_only_the_later_one_ends_sessions(world: World) -> None:
    late, owner = await world.owner(), await world.owner()
    for number, key in enumerate(KEYS):
        await world.chat(key, f"old{number}")
    await world.clock.advance(3600)
    outcomes = await asyncio.gather(late.look(), owner.look(), return_exceptions=True)
    assert isinstance(outcomes[0], Fenced)
    assert not isinstance(outcomes[1], Exception)
    assert await world.resets() == [(f"old{number}", True) for number in range(len(KEYS))]
    assert len(world.turns.requests) == len(KEYS)


async def test_an_owner_that_is_lost_after_it_has_asked_is_followed_by_one_that_asks_the_same(
    world: World,
) -> None:
    late = await world.owner()
    await world.chat(KEYS[0], "old")
    await world.clock.advance(3600)
    world.turns.unreachable = True
    await late.end_if_due(KEYS[0])
    world.turns.unreachable = False
    owner = await world.owner()
    with pytest.raises(Fenced):
        await late.look()
    assert await world.resets() == [("old", False)]
    await owner.look()
    assert await world.resets() == [("old", True)]
    assert list(world.turns.start_calls.values()) == [2]


async def test_an_agent_that_cannot_look_back_holds_nothing_up_and_is_asked_again(
    world: World,
) -> None:
    owner = await world.owner()
    for number, key in enumerate(KEYS):
        await world.chat(key, f"old{number}")
    await world.clock.advance(3600)
    world.turns.unreachable = True
    for is_asked in (False, True):
        await owner.look()
        expected = [(f"old{number}", is_asked) for number in range(len(KEYS))]
        assert await world.resets() == expected
        world.turns.unreachable = False
    assert len(world.turns.requests) == len(KEYS)


async def test_what_is_said_meanwhile_keeps_a_session(world: World) -> None:
    owner = await world.owner()
    await world.chat(KEYS[0], "old")
    await world.clock.advance(3600)
    now = world.clock.now()
    await world.database.write(lambda conn: chats.touch(conn, "default", KEYS[0], now))
    await owner.look()
    await owner.end_if_due(KEYS[0])
    assert await world.sessions_of() == {KEYS[0]: "old"}
    assert not world.turns.requests
    stale = chats.Reset("new", "old", KEYS[0], "default", Mode.IDLE)
    seen = now - timedelta(hours=1)
    assert not await world.database.write(lambda conn: chats.move(conn, stale, seen, now))
    assert await world.resets() == []
