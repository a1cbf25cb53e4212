"""Check that a service on this machine or in this container is ready; for probes."""

import asyncio

from services.cli.command import Command, Context, arg
from services.cli.connection import silence
from services.cli.console import say
from services.cli.process import ALL
from services.config.settings import Settings, load_settings
from services.errors import ServiceUnavailable
from services.rpc.addresses import Address, TcpAddress
from services.rpc.auth import Identity
from services.rpc.channels import Channels
from services.runtime.config import ServiceConfig

EXAMPLES = """\
examples:
  hermes health agent

The exit status is 0 if the service is ready, else 1. The command uses the settings of hermes serve
to find the address and the certificate."""

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Loopback addresses for services that listen on all interfaces."""


async def ask(settings: Settings, service: str) -> str:
    """Return that the service serves; or raise ServiceUnavailable."""
    config = settings.load(ServiceConfig)
    address = _here(config.listen, config.addresses.find(service, settings.home))
    async with Channels(Identity.OPERATOR, {service: address}, tls=config.tls.files) as channels:
        why = await silence(channels.to(service), service)
    if why:
        raise ServiceUnavailable(f"the {service} at {address} is not ready: {why}")
    return f"the {service} is ready"


def _here(listen: Address | None, address: Address) -> Address:
    """Return this process's own address, as the service's name may mean other replicas."""
    if not isinstance(listen, TcpAddress):
        return listen or address
    name = address.server_name or address.host if isinstance(address, TcpAddress) else ""
    return TcpAddress(_LOOPBACK.get(listen.host, listen.host), listen.port, name)


def _ask(context: Context) -> None:
    say(asyncio.run(ask(load_settings(vars(context.given)), context.given.service)))


COMMAND = Command(
    EXAMPLES, function=_ask, arguments=(arg("service", "service to check", choices=ALL),)
)
