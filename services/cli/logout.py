"""Forget a login at a model provider, and tell the provider where that is possible."""

import argparse
import asyncio
import importlib
from collections.abc import Awaitable

from services.cli.arguments import add_home
from services.cli.console import print_json, say
from services.cli.login import at_home
from services.cli.startup import load, logged
from services.logins import PROVIDERS, LoggedOut

EXAMPLES = """\
examples:
  hermes logout nous
  hermes logout codex --json

Nous Portal has a page on which logins end for good; programs cannot tell it."""

LOG_OUT = "agent_service.logins:log_out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes logout`."""
    add_home(parser)
    parser.add_argument("provider", choices=list(PROVIDERS), help="where to log out")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Forgets the login."""
    settings = at_home(load(arguments))
    module, _, name = LOG_OUT.partition(":")
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        left: Awaitable[LoggedOut] = getattr(importlib.import_module(module), name)(
            settings, arguments.provider
        )
        found = asyncio.run(_awaited(left))
    title = PROVIDERS[arguments.provider]
    if arguments.json:
        was_there = {"was_logged_in": found.was_there, "revoked": found.revoked}
        print_json({"provider": arguments.provider, **was_there})
    elif not found.was_there:
        say(f"There was no login at {title}.")
    elif found.revoked:
        say(f"Logged out at {title}.")
    else:
        say(f"The login at {title} is forgotten here; end it there as well if others may have it.")
    return 0


async def _awaited(left: Awaitable[LoggedOut]) -> LoggedOut:
    return await left
