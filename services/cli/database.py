"""Bring the tables of services up to date, before the services of a new version are started."""

import argparse
import asyncio
import importlib

from services.cli.arguments import Actions
from services.cli.console import print_json, say
from services.cli.startup import load, logged
from services.config import Settings
from services.config_models import ServiceConfig
from services.database import Database
from services.migrations import prepare, revision

EXAMPLES = """\
examples:
  hermes database upgrade
  hermes database upgrade agent
  hermes database upgrade --json

Services do the same when they start. With this it is done, or has failed, before the first of a new
version runs; those of the version before go on meanwhile. SQLite files have one user: stop Hermes
first."""

SCHEMAS = {
    "agent": ("agent_service.storage.schema:metadata", "agent_service.storage.migrations"),
    "gateway": ("gateway_service.storage.schema:metadata", "gateway_service.storage.migrations"),
    "scheduler": (
        "scheduler_service.storage.schema:metadata",
        "scheduler_service.storage.migrations",
    ),
}
"""The tables of each service that has some, and the package of migrations that lead there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes database`."""
    actions = Actions(parser, "upgrade")
    upgrade = actions.add("upgrade", "bring the tables to what this version needs")
    upgrade.add_argument(
        "service", nargs="*", type=_service, metavar="SERVICE", help="whose tables (all)"
    )
    upgrade.add_argument("--json", action="store_true", help="one JSON list")


def _service(name: str) -> str:
    if name not in SCHEMAS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(SCHEMAS)}")
    return name


def run(arguments: argparse.Namespace) -> int:
    """Upgrades, one service after the other."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes"):
        return asyncio.run(_upgrade(settings, arguments))


async def _upgrade(settings: Settings, arguments: argparse.Namespace) -> int:
    done: list[dict[str, str | None]] = []
    for service in arguments.service or SCHEMAS:
        before, after = await _bring_up(settings, service)
        done.append({"service": service, "before": before, "after": after})
        if not arguments.json:
            was = "" if before == after else f", before {before or 'there were none'}"
            say(f"the tables of the {service} are those of {after}{was}")
    if arguments.json:
        print_json(done)
    return 0


async def _bring_up(settings: Settings, service: str) -> tuple[str | None, str | None]:
    """What the tables were before, and are now."""
    url = settings.load(ServiceConfig).database.url_of(service, settings.home)
    schema, package = SCHEMAS[service]
    module, _, attribute = schema.partition(":")
    metadata = getattr(importlib.import_module(module), attribute)
    async with Database(url, service) as database:
        before = await revision(database)
        await prepare(database, metadata, importlib.import_module(package))
        return before, await revision(database)
