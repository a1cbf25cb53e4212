"""A command's way to the services: those that run, or its own while it needs them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from services.addresses import Address, UnixAddress
from services.auth import Identity
from services.channels import Channels
from services.cli import process
from services.config import Settings
from services.config_models import ServiceConfig
from services.errors import FailedPrecondition
from services.lifecycle import Shutdown, Workers


@asynccontextmanager
async def connected(settings: Settings, services: Sequence[str]) -> AsyncGenerator[Channels]:
    """Channels to the services; those that are not running run here until the context is left."""
    config = settings.load(ServiceConfig)
    addresses = {name: config.addresses.of(name, settings.home) for name in services}
    local = UnixAddress(settings.home.socket)
    if local in addresses.values() and not await is_running(settings):
        async with _embedded(settings, services) as channels:
            yield channels
        return
    async with await _client(settings, config, addresses) as channels:
        yield channels


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
    plan = process.one_process(settings, services, metrics=set(services) == set(process.ALL))
    shutdown, listening = Shutdown(), asyncio.Event()
    async with Workers() as workers:
        serving = workers.start(
            "services",
            process.run(settings, plan, ready=lambda _: listening.set(), shutdown=shutdown),
        )
        started = workers.start("start", listening.wait())
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        try:
            async with await _client(
                settings, settings.load(ServiceConfig), dict.fromkeys(services, plan.address)
            ) as channels:
                yield channels
        finally:
            shutdown.request("the command is done")
            await serving
