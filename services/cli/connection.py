"""Connections of a command to services that run, or that it runs itself."""

import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from services.cli import process
from services.cli.console import EXIT_INTERRUPTED, complain
from services.cli.failures import in_short, remedy
from services.config.settings import Settings
from services.errors import Draining, FailedPrecondition, ServiceUnavailable
from services.home.paths import DEFAULT_PROFILE, HomePaths
from services.lifecycle import Shutdown, Workers, all_of
from services.rpc.addresses import Address, UnixAddress
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.rpc.listeners import ListenFailed, lock_of
from services.runtime.config import ServiceConfig

HEALTH_S = 3.0
"""The timeout of a health check."""
STUCK_S = 15.0
"""How long another process may do nothing before a command gives up waiting for its services."""
PATIENCE_S = 10.0
"""How long a command waits for remote services."""
TELL_AFTER_S = 3.0
"""When a person is told about the wait."""
END_S = 1.5
"""How long services may take to stop after Ctrl-C, if others use them."""
WAIT_S = 0.2
"""The polling interval while another command's services stop."""
_NOT_SERVING = "it is starting or stopping"


@asynccontextmanager
async def connected(settings: Settings, services: Sequence[str]) -> AsyncGenerator[Channels]:
    """Yield channels to the services, run here if needed; ServiceUnavailable names missing ones."""
    async with AsyncExitStack() as stack:
        if at_home(settings, services):
            clients = await stack.enter_async_context(_clients_lock(settings.home))
            yield await _join(settings, services, clients, stack)
        else:
            addresses = elsewhere(settings, services)
            yield await stack.enter_async_context(_reached(settings, addresses))


@asynccontextmanager
async def _clients_lock(home: HomePaths) -> AsyncGenerator[int]:
    """Held by every command that uses the home's socket; the last one may stop the services.

    A command that runs services for itself waits for the others before it stops them. A command
    that arrives at that moment waits for the end, and runs its own.
    """
    path, flags = home.run / "clients.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = await asyncio.to_thread(os.open, path, flags, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, descriptor, fcntl.LOCK_SH)
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def running(settings: Settings, service: str) -> AsyncGenerator[Channels]:
    """Yield channels to a running service; ServiceUnavailable says how to start it."""
    address = settings.load(ServiceConfig).addresses.find(service, settings.home)
    if at_home(settings, (service,)) and not await is_running(settings):
        how = start_command(settings)
        raise ServiceUnavailable(f"the {service} is not running; start it with: {how}")
    async with _reached(settings, {service: address}, patience_s=0) as client:
        yield client


def start_command(settings: Settings) -> str:
    """Return the command that starts the services of a home."""
    name = settings.home.name
    return "hermes up" if name == DEFAULT_PROFILE else f"hermes up --profile {name}"


async def reach(settings: Settings, services: Sequence[str]) -> None:
    """Wait for the remote services, as `connected` does."""
    async with _reached(settings, elsewhere(settings, services)):
        pass


async def unanswered(settings: Settings, addresses: Mapping[str, Address]) -> dict[str, str]:
    """Return those services that do not answer now, with advice for each."""
    async with await _client(settings, addresses) as client:
        return await _unanswered(client, addresses)


@asynccontextmanager
async def _reached(
    settings: Settings, addresses: Mapping[str, Address], patience_s: float = PATIENCE_S
) -> AsyncGenerator[Channels]:
    """Yield channels to services once all answer, as they may be starting."""
    started, is_announced = monotonic(), False
    async with await _client(settings, addresses) as client:
        while silent := await _unanswered(client, addresses):
            waited_s = monotonic() - started
            if waited_s >= patience_s:
                raise ServiceUnavailable("\n".join(silent.values()))
            if waited_s >= TELL_AFTER_S and not is_announced:
                is_announced = True
                names = " and ".join(f"the {name} service at {addresses[name]}" for name in silent)
                complain(f"waiting for {names}")
            await asyncio.sleep(WAIT_S)
        yield client


async def _unanswered(client: Channels, addresses: Mapping[str, Address]) -> dict[str, str]:
    found = await all_of(silence(client.to(name), name) for name in addresses)
    return {
        name: f"the {name} service at {address} does not answer ({why}); {_advice(name, why)}"
        for (name, address), why in zip(addresses.items(), found, strict=True)
        if why
    }


def _advice(name: str, why: str) -> str:
    if "certificate" in why:
        return (
            "use certificates of the same CA on both sides: HERMES_TLS_CA, HERMES_TLS_CERTIFICATE"
        )
    return remedy(name)


async def silence(channel: grpc.aio.Channel, service: str = "") -> str:
    """Return why a service, or the process, does not serve; empty if it does."""
    health: Any = HealthStub(channel)  # the package's stubs lack its methods
    try:
        answer = await health.Check(HealthCheckRequest(service=service), timeout=HEALTH_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            return "another service answers there"
        return in_short(error)
    return "" if answer.status == HealthCheckResponse.SERVING else _NOT_SERVING


async def _join(
    settings: Settings, services: Sequence[str], clients: int, stack: AsyncExitStack
) -> Channels:
    """Yield channels to the services on the home's socket, started here if nobody runs them."""
    addresses: dict[str, Address] = dict.fromkeys(services, UnixAddress(settings.home.socket))
    lock = lock_of(UnixAddress(settings.home.socket))
    began, is_announced, progress = monotonic(), False, ""
    started = began
    while True:
        if (last := await asyncio.to_thread(lock.progress)) != progress:
            started, progress = monotonic(), last
        has_waited = monotonic() - started >= STUCK_S
        if not await is_running(settings):
            try:
                # A command that was faster is given its time.
                if has_waited or not await asyncio.to_thread(lock.is_held):
                    channels = await stack.enter_async_context(_embedded(settings, services))
                    # Once no other command uses the services, and none can begin to.
                    stack.push_async_callback(_outlast_others, clients)
                    return channels
            except ListenFailed:
                if has_waited:
                    raise
            if not is_announced and monotonic() - began >= STUCK_S:
                is_announced = True
                complain("another command is starting or stopping services; waiting for it")
        elif not await unanswered(settings, addresses):
            return await stack.enter_async_context(await _client(settings, addresses))
        elif not is_announced:
            is_announced = True  # it runs only the services that it needs itself
            complain("another command uses this home; waiting until it ends")
        # Do not block the process that waits for the last client.
        fcntl.flock(clients, fcntl.LOCK_UN)
        await asyncio.sleep(WAIT_S)
        await asyncio.to_thread(fcntl.flock, clients, fcntl.LOCK_SH)


async def _outlast_others(clients: int) -> None:
    """Wait until no other command uses the services; Ctrl-C ends the process."""
    # From here on: other handlers, such as that of a prompt, may have replaced that of Shutdown.
    is_over, is_announced = asyncio.Event(), False

    def end() -> None:
        is_over.set()
        last_resort = Timer(END_S, os._exit, [EXIT_INTERRUPTED])
        last_resort.daemon = True
        last_resort.start()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, end)
    while not is_over.is_set():
        with suppress(BlockingIOError):
            fcntl.flock(clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if not is_announced:
            is_announced = True
            others = " and ".join(await asyncio.to_thread(_users, clients)) or "another command"
            complain(
                f"{others} still uses Hermes, which runs in this terminal until that has ended; "
                "press Ctrl-C to end it now"
            )
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), WAIT_S)


def _users(clients: int) -> list[str]:
    """Return the other commands that hold the clients' lock, as far as the system tells."""
    file, own, found = os.fstat(clients).st_ino, os.getpid(), list[str]()
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            pid = int(fields[-4])
            if fields[1] == "FLOCK" and fields[-3].endswith(f":{file}") and pid != own:
                words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
                at = next((n for n, word in enumerate(words) if Path(word).name == "hermes"), -1)
                command = f"hermes {words[at + 1]}" if 0 <= at < len(words) - 1 else "a command"
                found.append(f"{command} (process {pid})")
    return found


async def has_services(settings: Settings, services: Sequence[str]) -> bool:
    """Return whether the services run already or are remote, so that none is started here."""
    return not at_home(settings, services) or await is_running(settings)


def elsewhere(settings: Settings, services: Sequence[str]) -> dict[str, Address]:
    """Return the addresses of services that are not on the home's socket."""
    addresses, here = settings.load(ServiceConfig).addresses, at_home(settings, services)
    return {name: addresses.find(name, settings.home) for name in services if name not in here}


def at_home(settings: Settings, services: Sequence[str]) -> tuple[str, ...]:
    """Return the services that are on the home's socket."""
    addresses, here = settings.load(ServiceConfig).addresses, UnixAddress(settings.home.socket)
    return tuple(name for name in services if addresses.find(name, settings.home) == here)


async def is_running(settings: Settings) -> bool:
    """Return whether Hermes answers on the home's socket, as opposed to another listener."""
    try:
        _, writer = await asyncio.open_unix_connection(settings.home.socket)
    except OSError:
        return False  # gRPC would pause and retry
    writer.close()
    async with Channels(Identity.OPERATOR, {"home": str(UnixAddress(settings.home.socket))}) as own:
        return await silence(own.to("home")) in ("", _NOT_SERVING)


async def _client(settings: Settings, addresses: Mapping[str, Address]) -> Channels:
    token = None
    if any(isinstance(address, UnixAddress) for address in addresses.values()):
        token = await asyncio.to_thread(_token, settings)
    files = settings.load(ServiceConfig).tls.files
    return Channels(Identity.OPERATOR, addresses, tls=files, token=token)


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
            async with process.client_of(plan) as channels, until_told(shutdown, workers):
                yield channels
        finally:
            shutdown.request("the command is done")
            await serving


@asynccontextmanager
async def until_told(shutdown: Shutdown, workers: Workers) -> AsyncGenerator[None]:
    """End the block as soon as the process is told to stop, before what it talks to."""
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
