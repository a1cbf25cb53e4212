"""Services in this process: how they are built and run."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct
from prometheus_client import CollectorRegistry

from services.cli.console import complain
from services.cli.startup import imported
from services.config.settings import Settings
from services.home.paths import HomePaths, replace_file
from services.lifecycle import Shutdown
from services.rpc.addresses import Address, TcpAddress, UnixAddress
from services.rpc.auth import Identity, Tokens, new_tokens
from services.rpc.calls import CallObserver
from services.rpc.channels import Channels
from services.rpc.in_process import InProcessServer
from services.runtime.admin import reflecting
from services.runtime.component import Component, Readiness
from services.runtime.config import MetricsConfig, ServiceConfig
from services.runtime.metrics_server import MetricsListenFailed, serve_metrics
from services.runtime.server import ListenOptions, serve
from services.telemetry.metrics import Checks, Exposition, GrpcMetrics, Meter, process_registry
from services.telemetry.tracing import exporting

BUILDERS = {
    "agent": "agent_service.app:build",
    "executor": "executor_service.app:build",
    "gateway": "gateway_service.app:build",
    "scheduler": "scheduler_service.app:build",
}

ALL = tuple(BUILDERS)

OBJECTS_WHILE_SERVING = 10_000
"""Allocations between garbage collections."""


def token_file(home: HomePaths) -> Path:
    """Return the file with the operator's token for the home's socket."""
    return home.run / "operator.token"


class Plan(Struct, frozen=True):
    """The services of a process and their address."""

    services: Sequence[str]
    address: Address
    tokens: Tokens | None
    metrics: bool = False
    """Whether to serve /metrics; not for services that a command runs for itself alone."""


async def one_process(settings: Settings, services: Sequence[str] = ALL, *, metrics: bool) -> Plan:
    """Plan services together on the home's socket, each with its own token."""
    tokens = await asyncio.to_thread(_tokens, settings.home)
    return Plan(services, UnixAddress(settings.home.socket), tokens, metrics)


def _tokens(home: HomePaths) -> Tokens:
    """Create tokens; the operator keeps the last run's, so that its conversations continue."""
    tokens = dict(new_tokens())
    with suppress(OSError, ValueError):
        kept = token_file(home).read_text(encoding="ascii").strip()
        if len(kept) == len(tokens[Identity.OPERATOR]):
            tokens[Identity.OPERATOR] = kept
    return tokens


def client_of(plan: Plan) -> Channels:
    """Return an operator's channels to the plan's services."""
    addresses = dict.fromkeys(plan.services, str(plan.address))
    token = plan.tokens[Identity.OPERATOR] if plan.tokens is not None else None
    return Channels(Identity.OPERATOR, addresses, token=token)


async def run(
    settings: Settings,
    plan: Plan,
    *,
    ready: Callable[[Address], Awaitable[None]],
    shutdown: Shutdown | None = None,
) -> None:
    """Run the services until they are told to stop."""
    release = await asyncio.to_thread(version, "hermes-services")
    config = settings.load(ServiceConfig)
    stop, serving = shutdown or Shutdown(), asyncio.Event()
    own, in_process = process_registry(release), InProcessServer()
    grpc = GrpcMetrics.create(Meter(own))
    registries = {name: CollectorRegistry() for name in plan.services}
    channels = {
        name: _channels(settings, plan, name, in_process, grpc.client) for name in plan.services
    }
    # In a thread: importing the services and reading settings is slow.
    components = await asyncio.to_thread(_build, settings, channels, registries)
    about = {
        "service.name": f"hermes-{plan.services[0]}" if len(plan.services) == 1 else "hermes",
        "service.version": release,
        "service.instance.id": config.instance,
    }

    def serves() -> bool:
        return serving.is_set() and not stop.is_requested

    def leave_token() -> None:
        if plan.tokens is not None:
            replace_file(token_file(settings.home), plan.tokens[Identity.OPERATOR], 0o600)

    async def announce(addresses: tuple[Address, ...]) -> None:
        # Objects of the start stay; only later garbage is collected.
        gc.freeze()
        gc.set_threshold(OBJECTS_WHILE_SERVING)
        serving.set()
        await ready(addresses[0])

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(exporting(config.tracing, settings.redactor(), about))
        for each in channels.values():
            await stack.enter_async_context(each)
        if plan.metrics:
            checks, exposition = readiness(components, serves), Exposition(own, registries)
            # Only services at fixed addresses are scraped at a fixed port.
            metrics = _metrics(config.metrics, exposition, checks, may_move=plan.tokens is not None)
            await stack.enter_async_context(metrics)
        if plan.metrics and config.admin.port is not None:
            policies = [component.policy for component in components]
            await stack.enter_async_context(reflecting(config.admin.port, policies))
        listen = ListenOptions(
            (plan.address,), config.tls.files, plan.tokens, in_process, leave_token
        )
        await serve(components, listen, observer=grpc.server, ready=announce, shutdown=stop)


@asynccontextmanager
async def _metrics(
    wanted: MetricsConfig, exposition: Exposition, checks: Checks, *, may_move: bool
) -> AsyncGenerator[None]:
    """Serve metrics while inside; `may_move` permits another port if the wanted one is in use."""
    async with AsyncExitStack() as stack:

        async def serve_on(port: int) -> TcpAddress:
            metrics = serve_metrics(exposition, wanted.host, port, checks=checks)
            return await stack.enter_async_context(metrics)

        try:
            await serve_on(wanted.port)
        except MetricsListenFailed as failed:
            if not may_move or not failed.is_in_use:
                raise
            complain(
                f"port {wanted.port} is in use, so metrics are on {await serve_on(0)}; to choose a "
                "port, set services.metrics.port"
            )
        yield


def readiness(components: Sequence[Component], serves: Callable[[], bool]) -> Checks:
    """Return the checks of /readyz; callers exclude `platforms`, which do not affect calls."""

    def unheard() -> str:
        reports = (each.unready() for each in components if isinstance(each, Readiness))
        return "; ".join(filter(None, reports))

    return {
        "serving": lambda: "" if serves() else "it is starting or stopping",
        "platforms": unheard,
    }


def _build(
    settings: Settings,
    channels: Mapping[str, Channels],
    registries: Mapping[str, CollectorRegistry],
) -> list[Component]:
    return [
        imported(BUILDERS[name])(settings, own, Meter(registries[name]))
        for name, own in channels.items()
    ]


def _channels(
    settings: Settings, plan: Plan, name: str, in_process: InProcessServer, observer: CallObserver
) -> Channels:
    config, identity = settings.load(ServiceConfig), Identity(name)
    to = {
        service: in_process
        if service in plan.services
        else config.addresses.find(service, settings.home)
        for service in ALL
    }
    token = plan.tokens[identity] if plan.tokens is not None else None
    return Channels(identity, to, tls=config.tls.files, token=token, observer=observer)
