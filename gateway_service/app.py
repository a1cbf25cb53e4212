"""The gateway's composition root."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc.aio
from msgspec import Struct

from gateway_service.accounts.builtin import Configured, builtin_platforms
from gateway_service.accounts.menus import MenuKeeper
from gateway_service.accounts.runner import Ownership, PlatformHealth, Runner, Work
from gateway_service.chats.directory import Directory
from gateway_service.chats.home_import import import_home
from gateway_service.chats.hooks.hooks import HookPolicy, Hooks
from gateway_service.chats.pairing import Pairings
from gateway_service.chats.sessions import Sessions
from gateway_service.clients import AgentClient, SchedulerClient
from gateway_service.commands.base import CommandContext
from gateway_service.commands.registry import COMMANDS, find_unknown
from gateway_service.config import GatewayConfig
from gateway_service.metrics import GatewayMetrics
from gateway_service.outbox.retention import keep_house
from gateway_service.outbox.worker import OutboxWorker
from gateway_service.platforms.api_config import ApiConfig
from gateway_service.platforms.rate_limits import Limiter
from gateway_service.servicer import conversation, delivery, directory, pairing
from gateway_service.servicer.conversation import ConversationContext, ConversationServicer
from gateway_service.servicer.delivery import DeliveryServicer
from gateway_service.servicer.directory import DirectoryServicer, PlatformServicer
from gateway_service.servicer.http.routes import Routes, api_routes
from gateway_service.servicer.http.turns import ApiTurns, Uploads
from gateway_service.servicer.http.webhooks import Webhook, Webhooks
from gateway_service.servicer.pairing import PairingServicer
from gateway_service.storage import migrations
from gateway_service.storage.accounts import AccountLease, lease_table
from gateway_service.storage.inbox import Account
from gateway_service.turns.enrichment import Enrichment
from gateway_service.turns.inbox import Inbox
from gateway_service.turns.notifications import TerminalNotifications
from gateway_service.turns.presenter import TurnPresenter
from gateway_service.turns.router import Router
from gateway_service.turns.turn_starter import TurnEvents, TurnStarter
from services.clock import SystemClock
from services.config.settings import Settings
from services.database import Database
from services.database.leases import LeaseKeeper, new_owner
from services.database.migrations import prepare
from services.errors import FailedPrecondition
from services.lifecycle import Workers
from services.redaction.redactor import Redactor
from services.rpc.auth import Policy
from services.rpc.channels import Channels
from services.runtime.component import add_servicers
from services.runtime.config import ServiceConfig
from services.telemetry.metrics import Meter, redactions

if TYPE_CHECKING:
    from gateway_service.servicer.http.listener import HttpListener
    from gateway_service.servicer.mcp.server import McpEndpoint

_log = logging.getLogger(__name__)

POLICY: Policy = {**conversation.POLICY, **delivery.POLICY, **pairing.POLICY, **directory.POLICY}


class Parts(Struct, frozen=True):
    """The parts of the gateway."""

    database: Database
    workers: Workers
    metrics: GatewayMetrics
    conversations: ConversationContext
    deliveries: DeliveryServicer
    ownership: Ownership
    runners: Sequence[Runner]
    listener: "HttpListener | None"
    old_home: tuple[Path, str]
    """The folder and profile whose people and channels are imported once."""


def build(settings: Settings, channels: Channels, meter: Meter) -> "GatewayService":
    """Build the gateway without opening anything."""
    config, chassis = settings.load(GatewayConfig), settings.load(ServiceConfig)
    clock, workers, metrics = SystemClock(), Workers(), GatewayMetrics.create(meter)
    redactor = settings.redactor(redactions(meter))
    database = Database(chassis.database.url_of("gateway", settings.home), "gateway", clock)
    database.measure(meter)
    agent = AgentClient(channels.to("agent"))
    configured = builtin_platforms(config, settings.home)
    platforms = {each.platform.name: each.platform for each in configured}
    directory = Directory(
        {name: platform.account_id for name, platform in platforms.items()},
        {each.name: each.home_channel for each in config.platforms},
    )
    leases = lease_table(config.lease_s)
    inbox = Inbox(database, clock, metrics, config, redactor)
    hooks = Hooks(HookPolicy(settings, config.hook_timeout_s))
    conversations = ConversationContext(
        agent=agent,
        sessions=Sessions(database, agent, clock),
        turns=TurnStarter(
            inbox, database, agent, clock, workers, TurnEvents(agent, hooks, workers)
        ),
        notifications=TerminalNotifications(database, clock, metrics),
        commands=CommandContext(
            database, agent, SchedulerClient(channels.to), clock, COMMANDS, config, hooks, directory
        ),
    )
    webhooks = {
        each.platform.name: Webhook(
            each.webhook, Account(settings.profile, each.platform.name, each.platform.account_id)
        )
        for each in configured
        if each.webhook is not None
    }
    uploads = Uploads(agent, settings.home.state, config.media)
    turns = ApiTurns(agent, conversations.turns, database, clock, workers, uploads, config.api)
    deliveries = DeliveryServicer(database, clock, platforms, directory, redactor)
    routes = api_routes(turns, clock)
    received, profile = Webhooks(inbox, metrics, webhooks), settings.profile
    mcp = _mcp(config.api, channels, deliveries, profile)
    listener = _listener(config.api, profile, routes, received, mcp)
    ownership = Ownership(new_owner(chassis.instance), leases, LeaseKeeper(database, leases, clock))
    runners = [
        Runner(
            PlatformHealth(each.platform, clock, metrics, _trouble_of(each, listener)),
            settings.profile,
            inbox,
            lambda account, each=each: _work(
                each, account, conversations, metrics, redactor, settings.home.state
            ),
            database,
            ownership,
        )
        for each in configured
    ]
    parts = (database, workers, metrics, conversations, deliveries, ownership, runners, listener)
    return GatewayService(Parts(*parts, (settings.home.root, settings.profile)))


def _mcp(
    config: ApiConfig, channels: Channels, deliveries: DeliveryServicer, profile: str
) -> "McpEndpoint | None":
    if not config.mcp_keys:
        return None
    if find_spec("mcp") is None:
        raise FailedPrecondition(
            "the MCP server has a key, and its SDK is not installed: "
            "pip install 'hermes-services[mcp]'"
        )
    from gateway_service.servicer.mcp.server import McpEndpoint
    from gateway_service.servicer.mcp.tools import HermesTools

    return McpEndpoint(config.mcp_keys, HermesTools(channels, deliveries.deliver, profile))


def _listener(
    config: ApiConfig, profile: str, routes: Routes, webhooks: Webhooks, mcp: "McpEndpoint | None"
) -> "HttpListener | None":
    if not config.is_on and not webhooks and mcp is None:
        return None
    from gateway_service.servicer.http.listener import HttpListener

    return HttpListener(config, profile, routes, webhooks, mcp=mcp)


def _trouble_of(configured: Configured, listener: "HttpListener | None") -> Callable[[], str]:
    """Return what tells why a platform that calls the gateway cannot."""
    if configured.webhook is None or listener is None:
        return str
    return listener.unready


def _work(
    configured: Configured,
    account: AccountLease,
    conversations: ConversationContext,
    metrics: GatewayMetrics,
    redactor: Redactor,
    folder: Path,
) -> Work:
    platform, clock = configured.platform, conversations.commands.clock
    if configured.access.is_closed:
        _log.warning(
            "nobody may talk to Hermes on %s; set %sALLOWED_USERS",
            platform.name,
            configured.variables,
        )
    for name in find_unknown(configured.access):
        setting = f"platforms.{platform.name}.extra.commands"
        _log.warning("%s: no command is called %s; it is taken for a skill's", setting, name)
    if configured.access.lacks_admin:
        _log.warning(
            "several people may talk to Hermes on %s and none is an admin: commands such as /cron "
            "and /model are refused there; set %sADMINS",
            platform.name,
            configured.variables,
        )
    limiter = Limiter(platform.traits.rate, clock.monotonic)
    hooks = conversations.commands.hooks
    presenter = TurnPresenter(
        *(account, platform, limiter, conversations.agent, clock, redactor, hooks),
        conversations.commands.config.pacing.range_s,
    )
    enrichment = Enrichment(
        account,
        platform,
        conversations.agent,
        conversations.turns,
        folder,
        conversations.commands.config.media,
        clock,
    )
    router = Router(
        account, platform, configured.access, presenter, enrichment, conversations.commands, metrics
    )
    menu = None
    if configured.menu is not None:
        menu = MenuKeeper(configured.menu, conversations.commands, account.profile)
    return Work(router, OutboxWorker(account, platform, limiter, clock, metrics), limiter, menu)


class GatewayService:
    """The gateway as a component."""

    name = "gateway"
    policy = POLICY

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        parts = self._parts
        owner, leases = parts.ownership.owner, parts.ownership.leases
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(parts.database)
            await prepare(parts.database, migrations)
            await parts.database.write(lambda conn: leases.clear_earlier_boots(conn, owner))
            await stack.enter_async_context(parts.conversations.commands.hooks)
            await stack.enter_async_context(parts.workers)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    def register(self, server: grpc.aio.Server) -> None:
        parts = self._parts
        commands, database = parts.conversations.commands, parts.database
        add_servicers(
            server,
            ConversationServicer(parts.conversations),
            parts.deliveries,
            PairingServicer(Pairings(database, commands.clock)),
            DirectoryServicer(database, commands.directory),
            PlatformServicer(database, commands.directory),
        )

    async def run(self) -> None:
        """Run the accounts, send notifications, and complete open turns."""
        parts, conversations = self._parts, self._parts.conversations
        work: list[Coroutine[Any, Any, None]] = [
            conversations.turns.resume(),
            conversations.notifications.run(),
            parts.ownership.keeper.run(),
            import_home(parts.database, parts.conversations.commands.clock, *parts.old_home),
            keep_house(parts.database, conversations.commands.clock, parts.metrics),
            *(runner.run() for runner in parts.runners),
        ]
        if parts.listener is not None:
            work.append(parts.listener.run())
        if parts.runners:
            platforms = [each.health.platform.name for each in parts.runners]
            conversations.commands.hooks.notify("gateway:startup", {"platforms": platforms})
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)

    def unready(self) -> str:
        """Return which platforms do not answer, and why HTTP is not served."""
        parts = self._parts
        reports = [each.health.unready() for each in parts.runners]
        if parts.listener is not None:
            reports.append(parts.listener.unready())
        return "; ".join(filter(None, reports))

    async def drain(self) -> None:
        """Start nothing new and release the accounts; the next start completes open work."""
        if self._parts.listener is not None:
            self._parts.listener.drain()
        async with asyncio.TaskGroup() as group:
            for runner in self._parts.runners:
                group.create_task(runner.drain())
        await self._parts.workers.drain(0)
