"""The agent's composition root."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Self

import grpc.aio
from msgspec import Struct

from agent_service.assembly.core import Core, core_of
from agent_service.assembly.curation import CuratorNews, curations
from agent_service.assembly.hubs import hubs_of
from agent_service.assembly.mcp import mcp_servers
from agent_service.assembly.memory import external_memory
from agent_service.assembly.models import model_parts
from agent_service.assembly.stores import copy_bundled, shelves_of, stores_of
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
from agent_service.profiles.memory.store import MemoryStore
from agent_service.prompt.personal import PersonalLayers
from agent_service.records.overlays import Personalities
from agent_service.records.requests import TurnOptions, Unattended
from agent_service.records.turn_state import LiveTurn
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
from agent_service.sessions.title_writer import MAX_TOKENS as MAX_TITLE_TOKENS
from agent_service.sessions.title_writer import TitleWriter
from agent_service.sessions.trajectory_format import TrajectoryReader, TrajectoryRecorder
from agent_service.storage import migrations
from agent_service.storage.claims import Claimant
from agent_service.storage.journal import TurnLimits
from agent_service.storage.search.index import SearchUpkeep
from agent_service.storage.uploads import UploadUpkeep
from agent_service.tools.context_files import ContextFiles, Hints
from agent_service.tools.mcp.prompts import Prompts
from agent_service.tools.mcp.tools import session_tools
from agent_service.tools.schema import offered
from agent_service.tools.toolbox import Toolbox
from agent_service.turns.answer_files import AnswerFiles
from agent_service.turns.background_commands import BackgroundCommands
from agent_service.turns.background_notifier import BackgroundNotifier
from agent_service.turns.delegation import Delegation
from agent_service.turns.gauge_updater import GaugeUpdater
from agent_service.turns.memory_sync import MemorySync, Recall
from agent_service.turns.metrics import AgentMetrics, Gauges
from agent_service.turns.review_scheduler import ReviewScheduler
from agent_service.turns.reviews import Reviews
from agent_service.turns.runner import TurnHooks, TurnRunner
from agent_service.turns.service import Ownership, Turns
from agent_service.turns.session_drafts import Instructions, SessionDrafts, SessionSetup
from agent_service.turns.tool_context_factory import ToolContextFactory
from services.clock import Clock, SystemClock
from services.config.settings import Settings
from services.database import Database
from services.database.migrations import prepare
from services.lifecycle import Workers
from services.rpc.channels import Channels
from services.runtime.component import add_servicers
from services.telemetry.metrics import Meter

AfterTurn = Callable[[LiveTurn], Awaitable[None]]


def build(
    settings: Settings, channels: Channels, meter: Meter, clock: Clock | None = None
) -> "AgentService":
    """Puts the agent together; nothing is opened yet."""
    core = core_of(settings, meter, clock or SystemClock())
    config, database, clock, redactor = core.config, core.database, core.clock, core.redactor
    models, stores, scanner, leases = model_parts(core), stores_of(core), core.scanner, core.leases
    executors, shelves = Executors(channels, config.executor_away_s), shelves_of(core, stores)
    memories = MemoryStore(stores.documents, database, _limits(config, models), clock, scanner)
    policy, external = command_policy(core), external_memory(settings, clock, scanner)
    context_files = ContextFiles(scanner, config.context_file_max_chars, policy.own)
    reach, told = tool_reach(core, channels, external, executors), _directions(config, models)
    listed = listed_tools(core, memories, reach, Hints(context_files), policy)
    tools, histories = offered(listed), Histories(database, settings.home, clock, redactor)
    servers, toolsets = mcp_servers(core, executors, reach.screen, tools)
    delegation = Delegation(lambda: turns, toolsets, config.delegation.max_concurrent, database)
    sandboxes, left = SandboxLeases(executors, database), LeftSandboxes(executors, database)
    projects, hubs = Projects(executors, context_files), hubs_of(stores, config, clock)
    ended, sight = SandboxEnd(executors, sandboxes, database), sight_of(core, models)
    contexts = ToolContextFactory(database, leases, sandboxes, shelves, delegation, sight)
    files = AnswerFiles(reach.messenger, contexts.workplace, policy, reach.web.fetcher)
    homes, scripts = stores.homes, job_scripts(config, contexts.make, policy, scanner)
    spending = BudgetedModels(models, database, leases, config.budget.policy, clock, config.zone)
    plans, asks = curations(core, stores, models, spending), Consulting(models.consult, spending)
    toolbox = Toolbox(tools, contexts.make, redactor, asks.bind, session_tools(servers))
    parts = loop_parts(core, models, toolbox, scripts, files, Recall(external))
    reviews = Reviews(database, reach.messenger, config.learning, toolsets, clock)
    news, personas = CuratorNews(plans, database), Personalities(config.overlays.personalities)
    metrics, gauges, workers = AgentMetrics.make(meter, tools), Gauges.create(meter), Workers()
    trajectories = TrajectoryReader(database, toolbox.schemas, redactor.redact, config.zone)
    sync = MemorySync(database, external, guards_strangers=core.asks_taint)
    after = (*_following(core, models, trajectories, spending, workers), reviews.after, sync.after)
    recorded = (spending.record, ReviewScheduler(config.learning, toolsets).record, sync.record)
    hooks = TurnHooks(spending, recorded, after)
    runner = TurnRunner(database, leases, parts, hooks, contexts.endings, clock, metrics)
    ownership = _ownership(core, Replicas(channels, config.endpoint, clock))
    notices = BackgroundNotifier(lambda: turns, config.tools, reach.messenger, clock)
    watches = BackgroundCommands(database, ownership.claimant, sandboxes, notices, redactor, clock)
    places = SessionSetup(SandboxKinds(channels, clock), projects, config.sandbox, servers.offer)
    layers = PersonalLayers(stores.documents, memories, shelves, tools, context_files, external)
    drafts = SessionDrafts(clock, toolsets, told, places, layers, news, redactor)
    turns = Turns(database, runner, drafts, ownership, clock, workers, metrics)
    servicers = (
        TurnServicer(turns, config.tools, core.screening, reviews, shelves, Prompts(servers)),
        SessionServicer(database, histories, personas, clock, redactor.redact, ended),
        *(ApprovalServicer(database, turns, redactor.redact), UploadServicer(database, clock)),
        *(MemoryServicer(memories, external, sync, database, clock), CurationServicer(plans)),
        *(SkillServicer(shelves, Prompts(servers)), SkillHubServicer(hubs, shelves)),
        *(ToolCatalogServicer(listed, config.tools, servers), McpServicer(servers)),
        *(ModelCatalogServicer(models.catalog, models.first), UsageServicer(database, spending)),
        *(CatalogServicer(personas, database), TrajectoryServicer(trajectories)),
        HomeServicer(HomeMover(homes, memories, histories, shelves, external)),
    )
    recovering = (homes.recover, plans.recover, hubs.recover, watches.recover)
    first = (*recovering, copy_bundled(config, shelves, homes, workers))
    readings = GaugeUpdater(database, spending, memories, shelves, homes.profiles, gauges, clock)
    upkeep = SearchUpkeep(database, clock), UploadUpkeep(database, clock)
    beside = (left, histories, sync, watches, servers, reviews, readings, *upkeep)
    chores = Chores(first, [each.run for each in beside], servers.drain)
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


def _following(
    core: Core,
    models: ModelParts,
    trajectories: TrajectoryReader,
    spending: BudgetedModels,
    workers: Workers,
) -> Sequence[AfterTurn]:
    """What follows turns where somebody wants that: samples to train with, titles by a model."""
    config, redact, after = core.config, core.redactor.redact, list[AfterTurn]()
    if config.save_trajectories:
        after.append(TrajectoryRecorder(trajectories, core.settings.home).after)
    if config.auxiliary.get("title", AuxiliaryModel()).is_chosen:
        longest = min(MAX_TITLE_TOKENS, config.model.max_tokens)
        consult = Consult(models.priced, models.first.default_name, longest)
        route = route_of(config.auxiliary, "title")
        titling = TitleWriter(consult, route, redact, spending, core.database, workers)
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


def _ownership(core: Core, replicas: Replicas) -> Ownership:
    config = core.config
    return Ownership(
        claimant=Claimant(core.owner, config.endpoint, core.leases),
        replicas=replicas,
        options=TurnOptions(
            max_model_calls=config.max_turns, unattended=Unattended(config.approvals.unattended)
        ),
        limits=TurnLimits(config.model.max_tokens, timedelta(seconds=config.approvals.timeout_s)),
    )
