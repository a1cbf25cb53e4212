"""A command's way to the services: those that run, or its own while it needs them."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from services.addresses import Address, UnixAddress
from services.auth import Identity
from services.channels import Channels
from services.cli import process
from services.cli.clients_lock import ClientsLock
from services.cli.console import complain
from services.config import Settings
from services.config_models import ServiceConfig
from services.errors import Draining, FailedPrecondition
from services.lifecycle import Shutdown, Workers
from services.listeners import ListenFailed

START_ATTEMPTS = 25
WAIT_S = 0.2
"""Pause before looking again whether another command's services have stopped."""


@asynccontextmanager
async def connected(settings: Settings, services: Sequence[str]) -> AsyncGenerator[Channels]:
    """Channels to the services; those that are not running run here until the context is left."""
    config = settings.load(ServiceConfig)
    addresses = {name: config.addresses.of(name, settings.home) for name in services}
    async with AsyncExitStack() as stack:
        if UnixAddress(settings.home.socket) in addresses.values():
            clients = await stack.enter_async_context(ClientsLock(settings.home))
            yield await _join(settings, services, clients, stack)
        else:
            yield await stack.enter_async_context(await _client(settings, config, addresses))


async def _join(
    settings: Settings, services: Sequence[str], clients: ClientsLock, stack: AsyncExitStack
) -> Channels:
    """Channels to the services on the home's socket, started here if nobody else has them."""
    config = settings.load(ServiceConfig)
    addresses: dict[str, Address] = dict.fromkeys(services, UnixAddress(settings.home.socket))
    for attempt in count():
        if not await is_running(settings):
            try:
                channels = await stack.enter_async_context(_embedded(settings, services))
            except ListenFailed:
                # Another command was faster, and answers in a moment.
                if attempt >= START_ATTEMPTS:
                    raise
            else:
                stack.push_async_callback(clients.outlive_others)
                return channels
        elif await _serves(settings, config, addresses):
            client = await _client(settings, config, addresses)
            return await stack.enter_async_context(client)
        elif attempt == 0:
            complain("another command is using this home; waiting for it to end")
        await clients.step_aside(WAIT_S)
    raise AssertionError("unreachable")


async def _serves(settings: Settings, config: ServiceConfig, addresses: dict[str, Address]) -> bool:
    """Whether whoever listens has all the services: a command runs only those that it needs."""
    async with await _client(settings, config, addresses) as client:
        # The package's stubs leave out its methods.
        health: Any = HealthStub(client.to(next(iter(addresses))))
        try:
            for name in addresses:
                await health.Check(HealthCheckRequest(service=name))
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE):
                return False
            raise
    return True


async def has_services(settings: Settings, services: Sequence[str]) -> bool:
    """Whether the services run already or are elsewhere, so that none is started here."""
    return not at_home(settings, services) or await is_running(settings)


def at_home(settings: Settings, services: Sequence[str]) -> tuple[str, ...]:
    """Those of the services that are found on the home's socket, and not elsewhere."""
    addresses, here = settings.load(ServiceConfig).addresses, UnixAddress(settings.home.socket)
    return tuple(name for name in services if addresses.of(name, settings.home) == here)


async def is_running(settings: Settings) -> bool:
    """Whether somebody answers on the home's socket."""
    try:
        _, writer = await asyncio.open_unix_connection(settings.home.socket)
    except OSError:
        return False
    writer.close()
    return True


async def _client(
    settings: Settings, config: ServiceConfig, addresses: dict[str, Address]
) -> Channels:
    named = {name: str(address) for name, address in addresses.items()}
    token = None
    if any(isinstance(address, UnixAddress) for address in addresses.values()):
        token = await asyncio.to_thread(_token, settings)
    return Channels(Identity.OPERATOR, named, tls=config.tls.files, token=token)


def _token(settings: Settings) -> str:
    path = process.token_file(settings.home)
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise FailedPrecondition(
            f"hermes is running, but {path} cannot be read ({error.strerror}); "
            "use the account that started it"
        ) from error


@asynccontextmanager
async def _embedded(settings: Settings, services: Sequence[str]) -> AsyncGenerator[Channels]:
    plan = await process.one_process(settings, services, metrics=set(services) == set(process.ALL))
    shutdown, listening = Shutdown(), asyncio.Event()

    async def ready(_address: Address) -> None:
        listening.set()

    async with Workers() as workers:
        serving = workers.start(
            "services", process.run(settings, plan, ready=ready, shutdown=shutdown)
        )
        started = workers.start("start", listening.wait())
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        try:
            async with process.client_of(plan) as channels, _until_told(shutdown, workers):
                yield channels
        finally:
            shutdown.request("the command is done")
            await serving


@asynccontextmanager
async def _until_told(shutdown: Shutdown, workers: Workers) -> AsyncGenerator[None]:
    """End what is inside as soon as the process is told to stop: before what it talks to."""
    inside = asyncio.current_task()
    assert inside is not None, "a command is a task"

    async def end() -> None:
        await shutdown.wait()
        inside.cancel()

    ending = workers.start("end", end())
    try:
        yield
    except asyncio.CancelledError:
        if not ending.done() or inside.uncancel():
            raise
        reason = await shutdown.wait()
        if reason == signal.SIGINT.name:
            raise KeyboardInterrupt from None
        raise Draining(f"stopped by {reason}") from None
    finally:
        ending.cancel()
