"""Ask a service of this machine or container whether it serves: what a probe runs."""

import argparse
import asyncio
from typing import Any

import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from services.addresses import Address, TcpAddress
from services.auth import Identity
from services.channels import Channels
from services.cli.arguments import add_home
from services.cli.console import say
from services.cli.failures import in_short
from services.config import Settings, load_settings
from services.config_models import ServiceConfig
from services.errors import ServiceUnavailable

EXAMPLES = """\
examples:
  hermes health agent

Ends with 0 when the service says by gRPC that it serves; else says why not, and ends with 1. It is
asked where it listens, and shown its own certificate: the settings are those of hermes serve."""

SERVICES = ("agent", "executor", "gateway", "scheduler")
ANSWER_S = 3.0
"""How long the service has to answer."""
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Where a service that listens everywhere is asked."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes health`."""
    add_home(parser)
    parser.add_argument("service", choices=SERVICES, help="the service")


def run(arguments: argparse.Namespace) -> int:
    """Asks the service."""
    asyncio.run(_ask(load_settings(vars(arguments)), arguments.service))
    say(f"the {arguments.service} serves")
    return 0


async def _ask(settings: Settings, service: str) -> None:
    """Fails with ServiceUnavailable unless the service serves."""
    config = settings.load(ServiceConfig)
    address = _here(config.listen, config.addresses.of(service, settings.home))
    async with Channels(Identity.OPERATOR, {service: address}, tls=config.tls.files) as channels:
        # The package's stubs leave out its methods.
        health: Any = HealthStub(channels.to(service))
        try:
            answer = await health.Check(HealthCheckRequest(service=service), timeout=ANSWER_S)
        except grpc.aio.AioRpcError as error:
            why = in_short(error)
        else:
            why = "" if answer.status == HealthCheckResponse.SERVING else "it starts or stops"
    if why:
        raise ServiceUnavailable(f"the {service} at {address} does not serve: {why}")


def _here(listen: Address | None, address: Address) -> Address:
    """This process's own address, not that of a replica which the name also stands for."""
    if not isinstance(listen, TcpAddress):
        return listen or address
    name = address.server_name or address.host if isinstance(address, TcpAddress) else ""
    return TcpAddress(_LOOPBACK.get(listen.host, listen.host), listen.port, name)
