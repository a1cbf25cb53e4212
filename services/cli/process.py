"""Services in this process: which there are, how they are put together, and run."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from services.addresses import Address, UnixAddress
from services.admin import reflecting
from services.auth import Identity, Tokens, new_tokens
from services.calls import CallObserver
from services.channels import Channels
from services.cli.startup import imported
from services.component import Component, Readiness
from services.config import Settings
from services.config_models import ServiceConfig
from services.home import HomePaths, replace_file
from services.in_process import InProcessServer
from services.lifecycle import Shutdown
from services.metrics import (
    Checks,
    Exposition,
    GrpcMetrics,
    Meter,
    process_registry,
    serve_metrics,
)
from services.server import Listen, serve
from services.tracing import exporting

BUILDERS = {
    "agent": "agent_service.app:build",
    "executor": "executor_service.app:build",
    "gateway": "gateway_service.app:build",
    "scheduler": "scheduler_service.app:build",
}
"""The composition root of each service."""

ALL = tuple(BUILDERS)

OBJECTS_WHILE_SERVING = 10_000
"""Made between two collections of garbage."""


def token_file(home: HomePaths) -> Path:
    """Where a process that listens on the home's socket leaves the operator's token."""
    return home.run / "operator.token"


class Plan(Struct, frozen=True):
    """What a process runs, and where it answers."""

    services: Sequence[str]
    address: Address
    tokens: Tokens | None
    metrics: bool = False
    """Whether they stay, and serve /metrics; not where a command runs them for itself alone."""


async def one_process(settings: Settings, services: Sequence[str] = ALL, *, metrics: bool) -> Plan:
    """Services together on the home's socket, each with a token of its own."""
    tokens = await asyncio.to_thread(_tokens, settings.home)
    return Plan(services, UnixAddress(settings.home.socket), tokens, metrics)


def _tokens(home: HomePaths) -> Tokens:
    """New ones; the operator's is that of the last run, so that its conversations go on."""
    tokens = dict(new_tokens())
    with suppress(OSError, ValueError):
        kept = token_file(home).read_text(encoding="ascii").strip()
        if len(kept) == len(tokens[Identity.OPERATOR]):
            tokens[Identity.OPERATOR] = kept
    return tokens


def client_of(plan: Plan) -> Channels:
    """An operator's channels to what the plan runs."""
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
    """Runs the services until they are told to stop."""
    # In a thread, because importing the services and reading the settings takes its time.
    assembled = await asyncio.to_thread(_assemble, settings, plan)
    config, stop, serving = assembled.config, shutdown or Shutdown(), asyncio.Event()

    def serves() -> bool:
        return serving.is_set() and not stop.is_requested

    async with AsyncExitStack() as stack:
        exported = exporting(config.tracing, settings.redactor(), assembled.about)
        await stack.enter_async_context(exported)
        for channels in assembled.channels:
            await stack.enter_async_context(channels)
        if plan.metrics:
            where = config.metrics
            await stack.enter_async_context(
                serve_metrics(
                    assembled.exposition,
                    where.host,
                    where.port,
                    checks=readiness(assembled.components, serves),
                )
            )

        if plan.metrics and config.admin.port is not None:
            policies = [component.policy for component in assembled.components]
            await stack.enter_async_context(reflecting(config.admin.port, policies))

        def leave_token() -> None:
            if plan.tokens is not None:
                token = plan.tokens[Identity.OPERATOR]
                replace_file(token_file(settings.home), token, 0o600)

        async def announce(addresses: tuple[Address, ...]) -> None:
            # What the start has made stays; only what work leaves behind is collected from now on.
            gc.freeze()
            gc.set_threshold(OBJECTS_WHILE_SERVING)
            serving.set()
            await ready(addresses[0])

        await serve(
            assembled.components,
            Listen(
                (plan.address,), config.tls.files, plan.tokens, assembled.in_process, leave_token
            ),
            observer=assembled.grpc.server,
            ready=announce,
            shutdown=stop,
        )


def readiness(components: Sequence[Component], serves: Callable[[], bool]) -> Checks:
    """What /readyz asks; who sends calls here leaves `platforms` out, as they are answered."""

    def unheard() -> str:
        reports = (each.unready() for each in components if isinstance(each, Readiness))
        return "; ".join(filter(None, reports))

    return {"serving": lambda: "" if serves() else "it starts or stops", "platforms": unheard}


class _Assembled(Struct, frozen=True):
    config: ServiceConfig
    about: dict[str, str]
    """What spans say of the process, in OpenTelemetry's names."""
    components: list[Component]
    channels: list[Channels]
    exposition: Exposition
    grpc: GrpcMetrics
    in_process: InProcessServer


def _assemble(settings: Settings, plan: Plan) -> _Assembled:
    config = settings.load(ServiceConfig)
    release = version("hermes-services")
    name = f"hermes-{plan.services[0]}" if len(plan.services) == 1 else "hermes"
    own = process_registry(release)
    about = {
        "service.name": name,
        "service.version": release,
        "service.instance.id": config.instance,
    }
    grpc, in_process = GrpcMetrics.create(Meter(own)), InProcessServer()
    assembled = _Assembled(config, about, [], [], Exposition(own), grpc, in_process)
    registries: dict[str, CollectorRegistry] = {}
    for name in plan.services:
        channels = _channels(settings, config, plan, name, in_process, grpc.client)
        registry = registries[name] = CollectorRegistry()
        assembled.channels.append(channels)
        assembled.components.append(imported(BUILDERS[name])(settings, channels, Meter(registry)))
    return replace(assembled, exposition=Exposition(own, registries))


def _channels(
    settings: Settings,
    config: ServiceConfig,
    plan: Plan,
    name: str,
    in_process: InProcessServer,
    observer: CallObserver,
) -> Channels:
    identity = Identity(name)
    together = dict.fromkeys(plan.services, in_process)
    apart = {
        service: config.addresses.of(service, settings.home)
        for service in ALL
        if service not in together
    }
    token = plan.tokens[identity] if plan.tokens is not None else None
    return Channels(
        identity, {**together, **apart}, tls=config.tls.files, token=token, observer=observer
    )
