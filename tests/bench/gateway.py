"""What the gateway adds to a turn: a platform in memory, and an agent that answers at once."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import grpc.aio

from gateway_service.messages import Content
from gateway_service.platforms.base import Destination, Traits
from gateway_service.platforms.rate_limits import Rate
from gateway_service.storage import migrations
from hermes.agent.v1 import turn_pb2
from services.database import Database
from services.database.migrations import prepare
from tests.bench.figures import Plan, Reading, Spread
from tests.fakes.platform import MemoryPlatform
from tests.fakes.turns import Context, FakeTurns, served_turns
from tests.integration.gateway_replicas import Agent, replica

CHATS = 500
BETWEEN_S = 0.02
"""Between the messages of different chats."""


class Timed(MemoryPlatform):
    """Notes when the text of a chat, which is its id, was shown."""

    def __init__(self) -> None:
        super().__init__(traits=Traits(message_units=4096, rate=Rate(1.0, 5)))
        self.shown_at = dict[str, float]()
        self._shown = asyncio.Event()

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        message_id = await super().send(destination, content, key)
        self._note(destination.chat_id, content)
        return message_id

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        await super().edit(destination, message_id, content)
        self._note(destination.chat_id, content)

    async def until(self, chats: list[str]) -> None:
        """Return once the texts of these chats are shown."""
        async with asyncio.timeout(120):
            while not self.shown_at.keys() >= set(chats):
                self._shown.clear()
                await self._shown.wait()

    def _note(self, chat_id: str, content: Content) -> None:
        if content.text == chat_id:
            self.shown_at.setdefault(chat_id, perf_counter())
            self._shown.set()


class TimedTurns(FakeTurns):
    """Notes when the turn of a chat was started, and when it had something to say."""

    def __init__(self) -> None:
        super().__init__()
        self.started_at = dict[str, float]()
        self.said_at = dict[str, float]()

    async def StartTurn(  # noqa: N802 - the contract's name
        self, request: turn_pb2.StartTurnRequest, context: Context
    ) -> turn_pb2.StartTurnResponse:
        self.started_at.setdefault(request.origin.chat_id, perf_counter())
        return await super().StartTurn(request, context)

    async def WatchTurn(  # noqa: N802 - the contract's name
        self, request: turn_pb2.WatchTurnRequest, context: Context
    ) -> AsyncIterator[turn_pb2.WatchTurnResponse]:
        chat_id = self.requests[request.turn_id].origin.chat_id
        async for response in super().WatchTurn(request, context):
            event = response.events[-1]
            # A turn that goes on has said all with its first text.
            is_said = event.HasField("turn_finished") or event.text_delta.text == chat_id
            if is_said:
                self.said_at.setdefault(chat_id, perf_counter())
            yield response


@asynccontextmanager
async def _gateway(plan: Plan, name: str) -> AsyncGenerator[tuple[Timed, TimedTurns]]:
    platform, turns = Timed(), TimedTurns()
    async with (
        Database(f"sqlite:///{plan.folder}/{name}.db", "gateway") as database,
        served_turns(turns=turns) as (_, address),
        grpc.aio.insecure_channel(address) as channel,
    ):
        await prepare(database, migrations)
        async with replica(database, platform, Agent(turns, channel)):
            for word in ("warm", "warmer"):
                platform.say(word, f"answer {word}")
                await platform.until([word])
            yield platform, turns


async def added(plan: Plan) -> list[Reading]:
    """Measure messages of many chats, one after the other and all at once."""
    chats = [f"chat-{number}" for number in range(min(CHATS, 2 * plan.samples))]
    async with _gateway(plan, "paced") as (platform, turns):
        sent_at = dict[str, float]()
        for chat_id in chats:
            sent_at[chat_id] = perf_counter()
            platform.say(chat_id, f"answer {chat_id}")
            await asyncio.sleep(BETWEEN_S)
        await platform.until(chats)
        times_ms = [
            1000 * (turns.started_at[it] - sent_at[it] + platform.shown_at[it] - turns.said_at[it])
            for it in chats
        ]
    async with _gateway(plan, "burst") as (platform, _):
        begun = perf_counter()
        for chat_id in chats:
            platform.say(chat_id, f"answer {chat_id}")
        await platform.until(chats)
        burst_s = perf_counter() - begun
    note = f"{len(chats)} chats"
    return [
        Reading("gateway_added_ms", Spread.of(times_ms), note),
        Reading("gateway_messages_per_s", round(len(chats) / burst_s, 1), f"{note} at once"),
    ]


async def first_text(plan: Plan) -> list[Reading]:
    """Measure from the first text of a turn until the chat shows it."""
    chats = [f"chat-{number}" for number in range(plan.samples)]
    async with _gateway(plan, "first") as (platform, turns):
        for chat_id in chats:
            platform.say(chat_id, f"say {chat_id}")
            await platform.until([chat_id])
            turns.release(list(turns.requests)[-1])
        times_ms = [1000 * (platform.shown_at[it] - turns.said_at[it]) for it in chats]
    return [Reading("gateway_first_text_ms", Spread.of(times_ms))]
