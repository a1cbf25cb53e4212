"""Log in to a model provider with a code that you confirm in a browser on any device."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from services.cli.command import Command, Context, arg, flag
from services.cli.connection import elsewhere
from services.cli.startup import imported, keep
from services.config.settings import Settings
from services.errors import FailedPrecondition
from services.runtime.logins import PROVIDERS, DeviceCode, LoggedIn

EXAMPLES = """\
examples:
  hermes login nous              a subscription of Nous Portal
  hermes login codex             a subscription of ChatGPT
  hermes login codex --json      print JSON: first the code, then the login

Hermes stores the login in auth.json of the home, which only you can read. With HERMES_LOGIN_KEY it
encrypts the login in the agent's database for all replicas. It renews the login by itself. Ctrl-C
stops waiting and changes nothing."""

SHARED_KEY = "HERMES_LOGIN_KEY"
"""With it, the agent shares logins between its replicas."""

LOG_IN = "agent_service.assembly.logins:log_in"


def check_place(settings: Settings) -> None:
    """Raise FailedPrecondition if the agent uses neither this home's logins nor shared ones."""
    if not _are_shared(settings) and (found := elsewhere(settings, ("agent",))):
        raise FailedPrecondition(
            f"the agent runs at {found['agent']} and uses the logins of its own home; log in there"
        )


async def log_in(context: Context) -> None:
    """Show the code, and wait until it is confirmed."""
    settings, provider = context.settings, context.given.provider
    check_place(settings)
    steps: AsyncGenerator[DeviceCode | LoggedIn] = imported(LOG_IN)(settings, provider)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, DeviceCode):
                _show_code(context, step, provider)
            else:
                _show_login(context, step, provider)
            # A reader of a pipe waits for the code.
            sys.stdout.flush()


def _show_code(context: Context, code: DeviceCode, provider: str) -> None:
    shown = {"user_code": code.user_code, "verification_url": code.url}
    ends = {"expires_at": code.expires_at.isoformat()}
    minutes = max(1, round((code.expires_at - datetime.now(UTC)).total_seconds() / 60))
    context.print_value(
        {"event": "code", "provider": provider, **shown, **ends},
        f"To log in to {PROVIDERS[provider]}, open this page in a browser on any device:\n\n"
        f"  {code.url}\n\n"
        f"and confirm this code, which is valid for {minutes} min:\n\n"
        f"  {code.user_code}\n\n"
        "Never give the code to anybody. Waiting; press Ctrl-C to stop.",
    )


def _show_login(context: Context, found: LoggedIn, provider: str) -> None:
    """Report the login, and choose the provider's models if none are configured."""
    text, settings = "", context.settings
    if not found.configured and not elsewhere(settings, ("agent",)):
        path = keep(settings, "model.provider", provider)
        text = f"\nHermes now uses its models (model.provider in {path})."
    elif found.configured != provider:
        text = f"\nTo use its models: hermes config set model.provider {provider}"
    ends = None if found.expires_at is None else found.expires_at.isoformat()
    in_use = found.configured in ("", provider)
    kept = {"file": found.place, "expires_at": ends, "in_use": in_use}
    context.print_value(
        {"event": "logged_in", "provider": provider, **kept},
        f"Logged in to {PROVIDERS[provider]}. The login is in {found.place}.{text}",
    )


def _are_shared(settings: Settings) -> bool:
    key = settings.variable(SHARED_KEY) or settings.secret_file(SHARED_KEY)
    return key is not None and bool(key.value)


PROVIDER = arg("provider", "the model provider", choices=tuple(PROVIDERS))
COMMAND = Command(
    EXAMPLES, function=log_in, arguments=(PROVIDER, flag("--json", "print one JSON object a line"))
)
