"""Run one service in this process, for deployments with a process or container each."""

import argparse
import asyncio

from services.addresses import Address
from services.cli import process
from services.cli.arguments import INT32, LEVELS, add_home, up_to
from services.cli.console import complain
from services.cli.startup import load, logged
from services.config import Settings
from services.config_models import ServiceConfig

EXAMPLES = """\
examples:
  hermes serve agent --listen 0.0.0.0:7401
  hermes serve executor --listen 127.0.0.1:7402 --metrics-port 9402

Services that talk over TCP need certificates: see hermes certs --help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes serve`."""
    add_home(parser)
    parser.add_argument("service", choices=process.ALL, help="the service")
    parser.add_argument("--listen", metavar="ADDRESS", help="host:port, or unix:/path")
    parser.add_argument(
        "--metrics-port", type=up_to(INT32), metavar="PORT", help="port of /metrics"
    )
    parser.add_argument("--log-level", choices=LEVELS, help="what is written to the log")
    parser.add_argument("--log-format", choices=("json", "text"), help="how it is written")
    parser.add_argument("--instance", metavar="NAME", help="this replica's name in leases")


def run(arguments: argparse.Namespace) -> int:
    """Runs the service until it is told to stop."""
    settings = load(arguments)
    with logged(settings, arguments.service):
        asyncio.run(_serve(settings, arguments.service))
    return 0


async def _serve(settings: Settings, service: str) -> None:
    config = settings.load(ServiceConfig)
    settings.home.create()
    address = config.listen or config.addresses.of(service, settings.home)

    async def ready(address: Address) -> None:
        complain(f"{service} ready on {address}")

    plan = process.Plan((service,), address, None, metrics=True)
    await process.run(settings, plan, ready=ready)
