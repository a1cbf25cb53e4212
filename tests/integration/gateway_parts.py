"""What the gateway's tests put together: the real agent and gateway on one socket."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
from prometheus_client import CollectorRegistry

from agent_service import app as agent_app
from gateway_service import app as gateway_app
from hermes.agent.v1.turn_event_pb2 import TurnEvent, TurnFinished
from hermes.gateway.v1.conversation_pb2 import ConverseRequest, ConverseResponse
from scheduler_service import app as scheduler_app
from services.cli.chat.dialogue import Dialogue
from services.config.settings import Settings, load_settings
from services.lifecycle import Workers
from services.rpc.addresses import UnixAddress
from services.rpc.auth import Identity, new_tokens
from services.rpc.channels import Channels
from services.runtime.component import Component
from services.runtime.server import ListenOptions, Server
from services.telemetry.metrics import Meter

SERVICES: tuple[str, ...] = ("agent", "gateway")
WITH_JOBS: tuple[str, ...] = (*SERVICES, "scheduler")
BUILDERS = {
    "agent": agent_app.build,
    "gateway": gateway_app.build,
    "scheduler": scheduler_app.build,
}


@dataclass(frozen=True)
class Hermes:
    """Services that run, and how an operator and a scheduler call them."""

    settings: Settings
    operator: Channels
    scheduler: Channels
    registries: Mapping[str, CollectorRegistry]

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric of the gateway."""
        return self.registries["gateway"].get_sample_value(name, labels) or 0.0

    async def counted(self, name: str, **labels: str) -> float:
        """The value of a metric of the gateway once it is more than nothing."""
        while True:
            if value := self.metric(name, **labels):
                return value
            await asyncio.sleep(0.01)

    async def until_rows(self, service: str, query: str, expected: list[tuple[Any, ...]]) -> None:
        """Return once a service's database holds what is expected."""
        async with asyncio.timeout(30):
            while True:
                if await self.rows(service, query) == expected:
                    return
                await asyncio.sleep(0.02)

    async def rows(self, service: str, query: str) -> list[tuple[Any, ...]]:
        """What a service's database holds."""
        return await asyncio.to_thread(_rows, self.settings.home.database(service), query)


@asynccontextmanager
async def hermes(
    folder: Path,
    model_url: str,
    yaml: str = "",
    environ: Mapping[str, str] | None = None,
    services: Sequence[str] = SERVICES,
) -> AsyncGenerator[Hermes]:
    """Run the agent and the gateway of a home together, as one process does."""
    settings = await asyncio.to_thread(_home, folder, model_url, yaml, environ or {})
    socket, tokens = UnixAddress(settings.home.socket), new_tokens()

    def channels(identity: Identity) -> Channels:
        addresses = dict.fromkeys(WITH_JOBS, socket)
        return Channels(identity, addresses, token=tokens[identity])

    async with AsyncExitStack() as stack:
        registries = {name: CollectorRegistry() for name in services}
        components: list[Component] = []
        for name in services:
            own = await stack.enter_async_context(channels(Identity(name)))
            # In a thread, as the scheduler looks for its time zone on the disk.
            meter = Meter(registries[name])
            components.append(await asyncio.to_thread(BUILDERS[name], settings, own, meter))
        server = Server(components, ListenOptions((socket,), tokens=tokens))
        await stack.enter_async_context(server)
        for component in components:
            await stack.enter_async_context(component)
        workers = await stack.enter_async_context(Workers())
        await server.start()
        for component in components:
            workers.start(component.name, component.run())
        operator = await stack.enter_async_context(channels(Identity.OPERATOR))
        scheduler = await stack.enter_async_context(channels(Identity.SCHEDULER))
        yield Hermes(settings, operator, scheduler, registries)
        for component in components:
            await component.drain()


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def _home(folder: Path, model_url: str, yaml: str, environ: Mapping[str, str]) -> Settings:
    (folder / "config.yaml").write_text(yaml)
    variables = {
        "HERMES_HOME": str(folder),
        "HERMES_BASE_URL": model_url,
        "HERMES_MODEL": "m",
        "HERMES_SKILLS_BUNDLED": "false",
    }
    settings = load_settings({}, {**variables, **environ})
    settings.home.create()
    return settings


class Client:
    """A terminal at the wire: says things, and keeps what it hears."""

    def __init__(self, channel: grpc.aio.Channel, opening: ConverseRequest.Open) -> None:
        self.dialogue = Dialogue(channel, opening)
        self.heard: list[ConverseResponse] = []
        self._changed = asyncio.Condition()

    async def listen(self) -> None:
        """Hear until cancelled."""
        async with aclosing(self.dialogue.responses()) as responses:
            async for response in responses:
                async with self._changed:
                    self.heard.append(response)
                    self._changed.notify_all()

    async def until(self, condition: Callable[["Client"], bool]) -> None:
        """Return once what was heard makes the condition true."""
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(lambda: condition(self))

    async def open(self) -> str:
        """The session, once the conversation is open."""
        await self.until(lambda client: client.of("opened") != [])
        return self.of("opened")[-1].opened.session_id

    async def ask(self, text: str) -> str:
        """Say something and return the answer of its turn."""
        message_id = self.dialogue.say(text)
        await self.until(lambda client: client.outcome(message_id) is not None)
        ended = self.outcome(message_id)
        assert ended is not None
        return ended.completed.answer

    async def command(self, text: str) -> ConverseResponse.Reply:
        """Say a slash command and return its reply."""
        message_id = self.dialogue.say(text)
        await self.until(lambda client: client.reply(message_id) is not None)
        reply = self.reply(message_id)
        assert reply is not None
        return reply

    def of(self, kind: str) -> list[ConverseResponse]:
        """What was heard of one kind."""
        return [response for response in self.heard if response.WhichOneof("kind") == kind]

    def news(self) -> list[str]:
        """The replies that answer nothing."""
        return [r.reply.text for r in self.of("reply") if not r.reply.message_id]

    def asked(self) -> list[str]:
        """The approvals that were asked for."""
        events = (event for response in self.of("event") for event in response.event.events)
        return [
            e.approval_requested.approval_id for e in events if e.HasField("approval_requested")
        ]

    def clarifications(self) -> list[str]:
        """The questions that were asked."""
        events = (event for response in self.of("event") for event in response.event.events)
        found = (e.clarification_requested.clarification_id for e in events)
        return [clarification_id for clarification_id in found if clarification_id]

    def turn(self, message_id: str) -> str:
        """The turn of a message; empty while it has none."""
        found = (r.accepted for r in self.of("accepted") if r.accepted.message_id == message_id)
        return next((accepted.turn_id for accepted in found), "")

    def events(self, turn_id: str) -> list[TurnEvent]:
        """The events of a turn."""
        heard = (r.event for r in self.of("event") if r.event.turn_id == turn_id)
        return [event for batch in heard for event in batch.events]

    def outcome(self, message_id: str) -> TurnFinished | None:
        """How the turn of a message ended; None while it has not."""
        events = self.events(self.turn(message_id))
        return next((e.turn_finished for e in events if e.HasField("turn_finished")), None)

    def reply(self, message_id: str) -> ConverseResponse.Reply | None:
        """The reply to a command."""
        found = (r.reply for r in self.of("reply") if r.reply.message_id == message_id)
        return next(found, None)


def news_reader() -> ConverseRequest.Open:
    """What opens a new conversation that takes news."""
    return ConverseRequest.Open(takes_news=True)


def opened_again(session_id: str, **watched: int) -> ConverseRequest.Open:
    """What opens a session that there is, at places in turns."""
    turns = [
        ConverseRequest.Watched(turn_id=turn_id, after_sequence=after)
        for turn_id, after in watched.items()
    ]
    return ConverseRequest.Open(session_id=session_id, watched_turns=turns)


@asynccontextmanager
async def client(
    running: Hermes, opening: ConverseRequest.Open | None = None
) -> AsyncGenerator[Client]:
    """A client whose conversation is open."""
    talking = Client(running.operator.to("gateway"), opening or ConverseRequest.Open())
    async with Workers() as workers:
        workers.start("client", talking.listen())
        await talking.open()
        yield talking
