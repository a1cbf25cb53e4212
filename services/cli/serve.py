"""Run one service, for deployments with a process or container for each service."""

import asyncio

from services.cli import process
from services.cli.command import LOG_LEVEL, METRICS_PORT, Command, Context, arg
from services.cli.console import complain
from services.cli.startup import logged
from services.config.settings import Settings
from services.rpc.addresses import Address
from services.runtime.config import ServiceConfig

EXAMPLES = """\
examples:
  hermes serve agent --listen 0.0.0.0:7401
  hermes serve executor --listen 127.0.0.1:7402 --metrics-port 9402

Services that talk over TCP need certificates: see hermes certs --help."""


def _run(context: Context) -> None:
    service: str = context.given.service
    with logged(context.settings, service):
        asyncio.run(_serve(context.settings, service))


async def _serve(settings: Settings, service: str) -> None:
    config = settings.load(ServiceConfig)
    settings.home.create()
    address = config.listen or config.addresses.find(service, settings.home)

    async def ready(address: Address) -> None:
        complain(f"{service} ready on {address}")

    plan = process.Plan((service,), address, None, metrics=True)
    await process.run(settings, plan, ready=ready)


COMMAND = Command(
    EXAMPLES,
    function=_run,
    arguments=(
        arg("service", "service to run", choices=process.ALL),
        arg("--listen ADDRESS", "address to listen on: host:port or unix:/path"),
        METRICS_PORT,
        LOG_LEVEL,
        arg("--log-format", "format of log messages", choices=("json", "text")),
        arg("--instance NAME", "name of this replica"),
    ),
)
