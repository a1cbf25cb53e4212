"""The gateway's composition root."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import grpc.aio

from gateway_service.clients import AgentClient
from gateway_service.commands import Tools
from gateway_service.inbox import Inbox
from gateway_service.metrics import GatewayMetrics
from gateway_service.servicer import conversation
from gateway_service.servicer.conversation import ConversationServicer, Desk
from gateway_service.sessions import Sessions
from gateway_service.storage import migrations
from gateway_service.storage.schema import metadata
from gateway_service.turns import Turns
from services.auth import Policy
from services.channels import Channels
from services.clock import SystemClock
from services.config import Settings
from services.config_models import ServiceConfig
from services.database import Database
from services.lifecycle import Workers
from services.metrics import Meter
from services.migrations import prepare

POLICY: Policy = {**conversation.POLICY}


def build(settings: Settings, channels: Channels, meter: Meter) -> "GatewayService":
    """Puts the gateway together; nothing is opened yet."""
    chassis, clock, workers = settings.load(ServiceConfig), SystemClock(), Workers()
    database = Database(chassis.database.url_of("gateway", settings.home), "gateway", clock)
    agent = AgentClient(channels.to("agent"))
    turns = Turns(database, agent, clock, workers)
    desk = Desk(
        agent=agent,
        inbox=Inbox(database, clock, GatewayMetrics.create(meter)),
        sessions=Sessions(database, agent, clock),
        turns=turns,
        tools=Tools(database, agent, clock),
    )
    return GatewayService(database, desk, workers)


class GatewayService:
    """The gateway as a component."""

    name = "gateway"
    policy = POLICY

    def __init__(self, database: Database, desk: Desk, workers: Workers) -> None:
        self._database = database
        self._desk = desk
        self._workers = workers
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            await prepare(self._database, metadata, migrations)
            await stack.enter_async_context(self._workers)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the servicers to the server."""
        ConversationServicer(self._desk).register(server)

    async def run(self) -> None:
        """Sees through what an earlier process has left open."""
        await self._desk.turns.resume()
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """Begins nothing more; what is open is taken up by the next start."""
        await self._workers.drain(0)
