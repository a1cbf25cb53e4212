"""Log in at a model provider with a code that you confirm in a browser, on any device."""

import argparse
import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from services.cli.arguments import add_home
from services.cli.connection import elsewhere
from services.cli.console import print_json, printable, say
from services.cli.startup import catalog, load, logged
from services.config import Settings
from services.config_edit import set_value
from services.errors import FailedPrecondition
from services.logins import PROVIDERS, DeviceCode, LoggedIn

EXAMPLES = """\
examples:
  hermes login nous              a subscription of Nous Portal
  hermes login codex             a subscription of ChatGPT
  hermes login codex --json      one JSON object a line: the code, then the login

The login is kept in auth.json of the home, for you alone, or with HERMES_LOGIN_KEY sealed in the
agent's database for all its replicas, and is renewed by itself. Ctrl-C stops waiting for the code
to be confirmed, and leaves everything as it was."""

SHARED_KEY = "HERMES_LOGIN_KEY"
"""With it the agent keeps logins where all its replicas have them."""

LOG_IN = "agent_service.logins:log_in"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes login`."""
    add_home(parser)
    parser.add_argument("provider", choices=list(PROVIDERS), help="where to log in")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """Shows a code and waits until it is confirmed."""
    settings = at_home(load(arguments))
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(_log_in(settings, arguments.provider, as_json=arguments.json))
    return 0


def at_home(settings: Settings) -> Settings:
    """The settings, where the agent uses logins of this home, or shared ones; else
    FailedPrecondition.
    """
    settings.home.create()
    if not _are_shared(settings) and (found := elsewhere(settings, ("agent",))):
        raise FailedPrecondition(
            f"the agent is at {found['agent']} and uses the logins of the home there: log in there"
        )
    return settings


async def _log_in(settings: Settings, provider: str, *, as_json: bool) -> None:
    module, _, name = LOG_IN.partition(":")
    steps: AsyncGenerator[DeviceCode | LoggedIn] = getattr(importlib.import_module(module), name)(
        settings, provider
    )
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, DeviceCode):
                _show_code(step, provider, as_json=as_json)
            else:
                _show_login(settings, step, provider, as_json=as_json)
            # Whoever reads a pipe waits for the code.
            sys.stdout.flush()


def _show_code(code: DeviceCode, provider: str, *, as_json: bool) -> None:
    if as_json:
        shown = {"user_code": code.user_code, "verification_url": code.url}
        ends = {"expires_at": code.expires_at.isoformat()}
        print_json({"event": "code", "provider": provider, **shown, **ends})
        return
    minutes = max(1, round((code.expires_at - datetime.now(UTC)).total_seconds() / 60))
    say(
        f"To log in at {PROVIDERS[provider]}, open this page in a browser, on any device:\n\n"
        f"  {printable(code.url)}\n\n"
        f"and confirm this code, which is good for {minutes} min:\n\n"
        f"  {printable(code.user_code)}\n\n"
        "Never give the code to anybody. Waiting; Ctrl-C stops."
    )


def _show_login(settings: Settings, found: LoggedIn, provider: str, *, as_json: bool) -> None:
    """Say that it is done, and have its models used where no others are."""
    is_elsewhere = bool(elsewhere(settings, ("agent",)))
    path = None if found.configured or is_elsewhere else _use(settings, provider)
    if as_json:
        ends = None if found.expires_at is None else found.expires_at.isoformat()
        in_use = found.configured in ("", provider)
        kept = {"file": found.place, "expires_at": ends, "in_use": in_use}
        print_json({"event": "logged_in", "provider": provider, **kept})
        return
    say(f"Logged in at {PROVIDERS[provider]}; the login is kept in {found.place}.")
    if path is not None:
        say(f"Its models are used from now on (model.provider in {path}).")
    elif found.configured != provider:
        say(f"To use its models: hermes config set model.provider {provider}")


def _are_shared(settings: Settings) -> bool:
    key = settings.variable(SHARED_KEY) or settings.secret_file(SHARED_KEY)
    return key is not None and bool(key.value)


def _use(settings: Settings, provider: str) -> Path:
    return set_value(settings.home, "model.provider", provider, catalog().models)
