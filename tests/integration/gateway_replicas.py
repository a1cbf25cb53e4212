"""A gateway's part that runs the account of a platform, with an agent at the wire."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
from prometheus_client import CollectorRegistry

from gateway_service.accounts.runner import Ownership, PlatformHealth, Runner, Work
from gateway_service.chats.access import Access
from gateway_service.chats.directory import Directory
from gateway_service.chats.hooks.hooks import Hooks
from gateway_service.clients import AgentClient, SchedulerClient
from gateway_service.commands.base import CommandContext
from gateway_service.commands.registry import COMMANDS
from gateway_service.config import BusyConfig, GatewayConfig, SessionResetConfig
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.worker import OutboxWorker
from gateway_service.platforms.base import Platform
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.storage.accounts import AccountLease, lease_table
from gateway_service.turns.enrichment import Enrichment
from gateway_service.turns.inbox import Inbox
from gateway_service.turns.presenter import TurnPresenter
from gateway_service.turns.router import Router
from gateway_service.turns.turn_starter import TurnEvents, TurnStarter
from services.clock import Clock, SystemClock
from services.database import Database
from services.database.leases import LeaseKeeper, new_owner
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter
from tests.fakes.turns import FakeTurns, served_turns

LONG_S, SHORT_S = 30.0, 3.0
ONLY_ADA = Access(frozenset({"7"}))
CONFIG = GatewayConfig(session_reset=SessionResetConfig(), busy=BusyConfig())


@dataclass(frozen=True)
class Agent:
    """The agent at the wire."""

    turns: FakeTurns
    channel: grpc.aio.Channel


class Replica:
    """A gateway's part that runs accounts."""

    def __init__(
        self,
        database: Database,
        platform: Platform,
        agent: Agent,
        lease_s: float,
        heard_by: Clock,
        home: Path,
    ) -> None:
        self.access = ONLY_ADA
        self.registry = CollectorRegistry()
        self.pauses_s = (0.0, 0.0)
        self.clock, metrics = SystemClock(), GatewayMetrics.create(Meter(self.registry))
        self._channel, self._client = agent.channel, AgentClient(agent.channel)
        self._workers = Workers()
        inbox = Inbox(database, self.clock, metrics, CONFIG, Redactor())
        self._turns = TurnStarter(
            *(inbox, database, self._client, self.clock, self._workers),
            TurnEvents(self._client, Hooks(), self._workers),
        )
        self._platform, self._metrics = platform, metrics
        self._home = home
        leases = lease_table(lease_s)
        self.keeper = LeaseKeeper(database, leases, self.clock)
        self.health = PlatformHealth(platform, heard_by, metrics)
        owner = Ownership(new_owner("replica"), leases, self.keeper)
        self.runner = Runner(self.health, "default", inbox, self._work, database, owner)

    def metric(self, name: str) -> float | None:
        """The value of a metric of its platform."""
        return self.registry.get_sample_value(name, {"platform": self._platform.name})

    def _work(self, account: AccountLease) -> Work:
        limiter = Limiter(self._platform.traits.rate, self.clock.monotonic)
        presenter = TurnPresenter(
            *(account, self._platform, limiter, self._client, self.clock, Redactor(), Hooks()),
            self.pauses_s,
        )
        scheduler = SchedulerClient(lambda _: self._channel)
        directory = Directory({self._platform.name: self._platform.account_id}, {})
        context = CommandContext(
            account.database,
            self._client,
            scheduler,
            self.clock,
            COMMANDS,
            CONFIG,
            Hooks(),
            directory,
        )
        starting = Enrichment(
            account, self._platform, self._client, self._turns, self._home, CONFIG.media, self.clock
        )
        router = Router(
            account, self._platform, self.access, presenter, starting, context, self._metrics
        )
        outbox = OutboxWorker(account, self._platform, limiter, self.clock, self._metrics)
        return Work(router, outbox, limiter)


@asynccontextmanager
async def replica(
    database: Database,
    platform: Platform,
    agent: Agent,
    lease_s: float = LONG_S,
    heard_by: Clock | None = None,
    home: Path = Path("/nonexistent"),
    access: Access = ONLY_ADA,
) -> AsyncGenerator[Replica]:
    """A replica that runs until the context is left, and then lets go; `heard_by` is the clock of
    its polls, and `home` keeps files."""
    made = Replica(database, platform, agent, lease_s, heard_by or SystemClock(), home)
    made.access = access
    async with Workers() as workers:
        workers.start("keeper", made.keeper.run())
        workers.start("runner", made.runner.run())
        yield made
        await made.runner.drain()


@asynccontextmanager
async def agent_at_the_wire() -> AsyncGenerator[Agent]:
    """An agent that is served."""
    async with served_turns() as (turns, address), grpc.aio.insecure_channel(address) as channel:
        yield Agent(turns, channel)
