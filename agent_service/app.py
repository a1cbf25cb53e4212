"""The agent's composition root."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Self

import grpc.aio
from msgspec import Struct
from msgspec.structs import replace

from agent_service.assembly.curation import CuratorNews, curations
from agent_service.assembly.hubs import Hubs, hubs_of
from agent_service.assembly.mcp import mcp_servers
from agent_service.assembly.memory import external_memory
from agent_service.assembly.models import model_parts
from agent_service.assembly.stores import Stores, beside_start, in_database, in_files, shelves_of
from agent_service.assembly.tools import (
    command_policy,
    job_scripts,
    listed_tools,
    loop_parts,
    sight_of,
    tool_reach,
)
from agent_service.clients.executors import Executors, LeftSandboxes
from agent_service.clients.leases import SandboxLeases
from agent_service.clients.projects import Projects
from agent_service.clients.replicas import Replicas
from agent_service.clients.sandbox_end import SandboxEnd
from agent_service.clients.sandbox_kinds import SandboxKinds
from agent_service.config import AgentConfig
from agent_service.config.endpoints import AuxiliaryModel, route_of
from agent_service.models.budgeted_models import BudgetedModels, Consulting
from agent_service.models.consult import Consult
from agent_service.models.parts import ModelParts
from agent_service.profiles.home.mover import HomeMover
from agent_service.profiles.memory.entries import Limits, Target
from agent_service.profiles.memory.provider import ExternalMemory
from agent_service.profiles.memory.store import MemoryStore
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.prompt.personal import PersonalLayers
from agent_service.records.overlays import Personalities
from agent_service.records.requests import TurnOptions, Unattended
from agent_service.records.turn_state import LiveTurn
from agent_service.security.threats import ThreatScanner
from agent_service.servicer.approvals import ApprovalServicer
from agent_service.servicer.catalogs import (
    CatalogServicer,
    ModelCatalogServicer,
    ToolCatalogServicer,
)
from agent_service.servicer.curation import CurationServicer
from agent_service.servicer.home import HomeServicer
from agent_service.servicer.mcp import McpServicer
from agent_service.servicer.memory import MemoryServicer
from agent_service.servicer.policy import POLICY
from agent_service.servicer.sessions import SessionServicer
from agent_service.servicer.skill_hub import SkillHubServicer
from agent_service.servicer.skills import SkillServicer
from agent_service.servicer.trajectories import TrajectoryServicer
from agent_service.servicer.turns import TurnServicer
from agent_service.servicer.uploads import UploadServicer
from agent_service.servicer.usage import UsageServicer
from agent_service.sessions.history import Histories
from agent_service.sessions.past_sessions import PastSessions
from agent_service.sessions.title_writer import MAX_TOKENS as MAX_TITLE_TOKENS
from agent_service.sessions.title_writer import TitleWriter
from agent_service.sessions.trajectory_format import TrajectoryReader, TrajectoryRecorder
from agent_service.storage import migrations
from agent_service.storage.claims import Claimant, turn_leases
from agent_service.storage.journal import TurnLimits
from agent_service.storage.search.index import SearchUpkeep
from agent_service.storage.uploads import UploadUpkeep
from agent_service.tools.base import Tool
from agent_service.tools.context_files import ContextFiles, Hints
from agent_service.tools.guards.commands import CommandPolicy
from agent_service.tools.mcp.prompts import Prompts
from agent_service.tools.mcp.servers import Servers
from agent_service.tools.mcp.tools import session_tools
from agent_service.tools.schema import Listed, offered
from agent_service.tools.toolbox import Toolbox
from agent_service.turns.answer_files import AnswerFiles
from agent_service.turns.background_commands import BackgroundCommands
from agent_service.turns.background_notifier import BackgroundNotifier
from agent_service.turns.delegation import Delegation
from agent_service.turns.gauge_updater import GaugeUpdater
from agent_service.turns.loop import LoopParts
from agent_service.turns.memory_sync import MemorySync, Recall
from agent_service.turns.message_assembly import Screening
from agent_service.turns.metrics import AgentMetrics, Gauges, build_scanner
from agent_service.turns.review_scheduler import ReviewScheduler
from agent_service.turns.reviews import Reviews
from agent_service.turns.runner import TurnHooks, TurnRunner
from agent_service.turns.service import Ownership, Turns
from agent_service.turns.session_drafts import Instructions, SessionDrafts, SessionSetup
from agent_service.turns.tool_context_factory import ToolContextFactory
from services.clock import Clock, SystemClock
from services.config.settings import Settings
from services.database import Database
from services.database.leases import LeaseTable, new_owner
from services.database.migrations import prepare
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.rpc.channels import Channels
from services.runtime.component import add_servicers
from services.runtime.config import ServiceConfig
from services.telemetry.metrics import Meter, redactions

AfterTurn = Callable[[LiveTurn], Awaitable[None]]


def build(
    settings: Settings, channels: Channels, meter: Meter, clock: Clock | None = None
) -> "AgentService":
    """Puts the agent together; nothing is opened yet."""
    config, chassis = settings.load(AgentConfig), settings.load(ServiceConfig)
    clock, redactor = clock or SystemClock(), settings.redactor(redactions(meter))
    database, leases = _database(settings, chassis, clock, meter), turn_leases(config.lease_s)
    models = model_parts(settings, config, database, clock, meter, redactor)
    stores, scanner = (_stores(settings, config, chassis, database, clock), build_scanner(meter))
    executors, screening = Executors(channels, config.executor_away_s), Screening(scanner, redactor)
    shelves, profiles = shelves_of(config, stores, clock, scanner), stores.documents
    memories = MemoryStore(profiles, database, _limits(config, models), clock, scanner)
    policy, context_files = _guarding(config, settings, redactor, scanner)
    external, past = external_memory(settings, clock, scanner), PastSessions(database)
    reach = tool_reach(config, channels, scanner, external, executors, settings.home, database)
    listed = listed_tools(config, memories, past, reach, Hints(context_files), policy)
    tools, histories = offered(listed), Histories(database, settings.home, clock, redactor)
    servers, toolsets = mcp_servers(settings, config, executors, database, reach.screen, tools)
    delegation = Delegation(lambda: turns, toolsets, config.delegation.max_concurrent, database)
    sandboxes, left = SandboxLeases(executors, database), LeftSandboxes(executors, database)
    projects, hubs = Projects(executors, context_files), hubs_of(stores, config, clock)
    ended, workers = SandboxEnd(executors, sandboxes, database), Workers()
    sight, sync = sight_of(config, models, screening), _sync(config, database, external)
    contexts = ToolContextFactory(database, leases, sandboxes, shelves, delegation, sight)
    files = AnswerFiles(reach.messenger, contexts.workplace, policy, reach.web.fetcher)
    told, scripts = _directions(config, models), job_scripts(config, contexts.make, policy, scanner)
    spending = BudgetedModels(models, database, leases, config.budget.policy, clock, config.zone)
    plans = curations(stores, config.auxiliary, models.consult, spending, database, redactor, clock)
    toolbox = _toolbox(tools, contexts, redactor, Consulting(models.consult, spending), servers)
    looping = loop_parts(config, models, toolbox, scripts, database, files, screening)
    parts = replace(looping, recall=Recall(external))
    reviews = Reviews(database, reach.messenger, config.learning, toolsets, clock)
    news, personas = CuratorNews(plans, database), Personalities(config.overlays.personalities)
    metrics, nudges = AgentMetrics.make(meter, tools), ReviewScheduler(config.learning, toolsets)
    after = _following(config, settings, database, models, parts, spending, workers)
    hooks = _hooks(spending, nudges, reviews, sync, after)
    runner = TurnRunner(database, leases, parts, hooks, contexts.endings, clock, metrics)
    ownership = _ownership(config, chassis, leases, Replicas(channels, config.endpoint, clock))
    notices = BackgroundNotifier(lambda: turns, config.tools, reach.messenger, clock)
    watches = BackgroundCommands(database, ownership.claimant, sandboxes, notices, redactor, clock)
    places = SessionSetup(SandboxKinds(channels, clock), projects, config.sandbox, servers.offer)
    layers = PersonalLayers(profiles, memories, shelves, tools, context_files, external)
    drafts = SessionDrafts(clock, toolsets, told, places, layers, news, redactor)
    turns = Turns(database, runner, drafts, ownership, clock, workers, metrics)
    servicers = (
        TurnServicer(turns, config.tools, screening, reviews, shelves, Prompts(servers)),
        SessionServicer(database, histories, personas, clock, redactor.redact, ended),
        *(ApprovalServicer(database, turns, redactor.redact), UploadServicer(database, clock)),
        *(MemoryServicer(memories, external, sync, database, clock), CurationServicer(plans)),
        *_tool_servicers(config, listed, servers, shelves, hubs),
        *(ModelCatalogServicer(models.catalog, models.first), UsageServicer(database, spending)),
        *(CatalogServicer(personas, database), TrajectoryServicer(_trajectories(database, parts))),
        HomeServicer(HomeMover(stores.homes, memories, histories, shelves, external)),
    )
    recovering = (stores.homes.recover, plans.recover, hubs.recover, watches.recover)
    first = (*recovering, beside_start(config, models.first, shelves, stores.homes, workers))
    readings = _readings(stores, database, spending, memories, shelves, meter, clock)
    beside = [each.run for each in (left, histories, sync, watches, servers, reviews, readings)]
    chores = Chores(first, (*beside, *_upkeep(database, clock)), servers.drain)
    return AgentService(database, models, turns, chores, workers, servicers)


class Chores(Struct, frozen=True):
    """What is done beside turns."""

    first: Sequence[Callable[[], Awaitable[None]]]
    """Before anybody is served."""
    beside: Sequence[Callable[[], Coroutine[None, None, None]]]
    """While turns run."""
    last: Callable[[], Awaitable[None]]
    """Once none runs here."""


class AgentService:
    """The agent as a component."""

    name = "agent"
    policy = POLICY

    def __init__(
        self,
        database: Database,
        models: ModelParts,
        turns: Turns,
        chores: Chores,
        workers: Workers,
        servicers: Sequence[object],
    ) -> None:
        self._database = database
        self._models = models
        self._turns = turns
        self._chores = chores
        self._workers = workers
        self._servicers = servicers
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            await prepare(self._database, migrations)
            await self._models.catalog.open()
            await stack.enter_async_context(self._models.routed)
            await stack.enter_async_context(self._workers)
            for chore in self._chores.first:
                await chore()
            await self._turns.recover()
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        add_servicers(server, *self._servicers)

    async def run(self) -> None:
        """Drives turns that nobody else owns, keeps the leases of those that it drives, and does
        what has to be done beside them.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._turns.run())
            group.create_task(self._turns.keep_leases())
            for chore in self._chores.beside:
                group.create_task(chore())

    async def drain(self) -> None:
        await self._turns.drain()
        await self._chores.last()


def _tool_servicers(
    config: AgentConfig,
    listed: Sequence[Listed],
    servers: Servers,
    shelves: SkillShelves,
    hubs: Hubs,
) -> Sequence[object]:
    return (
        SkillServicer(shelves, Prompts(servers)),
        SkillHubServicer(hubs, shelves),
        ToolCatalogServicer(listed, config.tools, servers),
        McpServicer(servers),
    )


def _toolbox(
    tools: Sequence[Tool[Any]],
    contexts: ToolContextFactory,
    redactor: Redactor,
    asks: Consulting,
    servers: Servers,
) -> Toolbox:
    return Toolbox(tools, contexts.make, redactor, asks.bind, session_tools(servers))


def _sync(config: AgentConfig, database: Database, external: ExternalMemory) -> MemorySync:
    return MemorySync(database, external, guards_strangers=config.fetch.taint == "ask")


def _hooks(
    spending: BudgetedModels,
    nudges: ReviewScheduler,
    reviews: Reviews,
    sync: MemorySync,
    after: Sequence[AfterTurn],
) -> TurnHooks:
    recorded = (spending.record, nudges.record, sync.record)
    return TurnHooks(spending, recorded, (*after, reviews.after, sync.after))


def _upkeep(
    database: Database, clock: Clock
) -> Sequence[Callable[[], Coroutine[None, None, None]]]:
    return SearchUpkeep(database, clock).run, UploadUpkeep(database, clock).run


def _guarding(
    config: AgentConfig, settings: Settings, redactor: Redactor, scanner: ThreatScanner
) -> tuple[CommandPolicy, ContextFiles]:
    policy = command_policy(config, settings.home.whole, redactor, scanner)
    return policy, ContextFiles(scanner, config.context_file_max_chars, policy.own)


def _database(settings: Settings, chassis: ServiceConfig, clock: Clock, meter: Meter) -> Database:
    database = Database(chassis.database.url_of("agent", settings.home), "agent", clock)
    database.measure(meter)
    return database


def _readings(
    stores: Stores,
    database: Database,
    spending: BudgetedModels,
    memories: MemoryStore,
    shelves: SkillShelves,
    meter: Meter,
    clock: Clock,
) -> GaugeUpdater:
    gauges, profiles = Gauges.create(meter), stores.homes.profiles
    return GaugeUpdater(database, spending, memories, shelves, profiles, gauges, clock)


def _stores(
    settings: Settings,
    config: AgentConfig,
    chassis: ServiceConfig,
    database: Database,
    clock: Clock,
) -> Stores:
    if config.profiles.store == "files":
        return in_files(settings.home)
    return in_database(settings.home, database, new_owner(chassis.instance), clock)


def _trajectories(database: Database, parts: LoopParts) -> TrajectoryReader:
    return TrajectoryReader(database, parts.toolbox.schemas, parts.redact, parts.zone)


def _following(
    config: AgentConfig,
    settings: Settings,
    database: Database,
    models: ModelParts,
    parts: LoopParts,
    spending: BudgetedModels,
    workers: Workers,
) -> Sequence[AfterTurn]:
    """What follows turns where somebody wants that: samples to train with, titles by a model."""
    after: list[AfterTurn] = []
    if config.save_trajectories:
        after.append(TrajectoryRecorder(_trajectories(database, parts), settings.home).after)
    if config.auxiliary.get("title", AuxiliaryModel()).is_chosen:
        longest = min(MAX_TITLE_TOKENS, config.model.max_tokens)
        consult = Consult(models.priced, models.first.default_name, longest)
        route = route_of(config.auxiliary, "title")
        titling = TitleWriter(consult, route, parts.redact, spending, database, workers)
        after.append(titling.after)
    return after


def _directions(config: AgentConfig, models: ModelParts) -> Instructions:
    model, catalog = models.first, models.catalog

    async def window(name: str) -> int:
        name = name or await model.default_name()
        await model.learn_window(name)
        return catalog.find(name).window

    return Instructions(
        config.system_message,
        model.default_name,
        config.tool_use_enforcement,
        config.tools.preset,
        window,
        config.overlays.overlay,
        config.zone,
    )


def _limits(config: AgentConfig, models: ModelParts) -> Limits:
    async def window() -> int:
        return models.catalog.window_of(await models.first.default_name())

    memory = config.memory
    usual = {Target.MEMORY: memory.memory_char_limit, Target.USER: memory.user_char_limit}
    return Limits(usual, window if memory.limit == "scaled" else None)


def _ownership(
    config: AgentConfig, chassis: ServiceConfig, leases: LeaseTable, replicas: Replicas
) -> Ownership:
    return Ownership(
        claimant=Claimant(new_owner(chassis.instance), config.endpoint, leases),
        replicas=replicas,
        options=TurnOptions(
            max_model_calls=config.max_turns, unattended=Unattended(config.approvals.unattended)
        ),
        limits=TurnLimits(config.model.max_tokens, timedelta(seconds=config.approvals.timeout_s)),
    )
