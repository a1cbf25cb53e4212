"""Upgrade the database tables before you start a new version."""

import argparse
import importlib

from services.cli.command import JSON_LIST, Command, Context, action, arg
from services.cli.console import say
from services.cli.output import print_json
from services.database import Database
from services.database.migrations import prepare, revision
from services.runtime.config import ServiceConfig

EXAMPLES = """\
examples:
  hermes database upgrade
  hermes database upgrade agent
  hermes database upgrade --json

Services also upgrade their tables at the start. With this command you see a failure before the new
version runs. The old version keeps running meanwhile. With SQLite, stop Hermes first."""

SCHEMAS = {
    "agent": "agent_service.storage.migrations",
    "gateway": "gateway_service.storage.migrations",
    "scheduler": "scheduler_service.storage.migrations",
}
"""The migrations of each service that has tables."""


async def _upgrade(context: Context) -> None:
    """Upgrade the tables to this version."""
    settings, done = context.settings, list[dict[str, str | None]]()
    config = settings.load(ServiceConfig).database
    for service in context.given.service or SCHEMAS:
        async with Database(config.url_of(service, settings.home), service) as database:
            before = await revision(database)
            await prepare(database, importlib.import_module(SCHEMAS[service]))
            after = await revision(database)
        done.append({"service": service, "before": before, "after": after})
        if not context.given.json:
            was = "unchanged" if before == after else f"before: {before or 'none'}"
            say(f"the tables of the {service} have version {after} ({was})")
    if context.given.json:
        print_json(done)


def _service(name: str) -> str:
    if name not in SCHEMAS:
        raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(SCHEMAS)}")
    return name


_SERVICES = arg("SERVICE*", "service whose tables to upgrade (all)", _service)
COMMAND = Command(EXAMPLES, actions=(action(_upgrade, _SERVICES, JSON_LIST),))
