"""Log in at a model provider with a code that you confirm in a browser, on any device."""

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
  hermes login codex --json      one JSON object a line: the code, then the login

The login is kept in auth.json of the home, for you alone, or with HERMES_LOGIN_KEY sealed in the
agent's database for all its replicas, and is renewed by itself. Ctrl-C stops waiting for the code
to be confirmed, and leaves everything as it was."""

SHARED_KEY = "HERMES_LOGIN_KEY"
"""With it the agent keeps logins where all its replicas have them."""

LOG_IN = "agent_service.assembly.logins:log_in"


def check_place(settings: Settings) -> None:
    """Raise FailedPrecondition where the agent does not use logins of this home, or shared ones."""
    if not _are_shared(settings) and (found := elsewhere(settings, ("agent",))):
        raise FailedPrecondition(
            f"the agent is at {found['agent']} and uses the logins of the home there: log in there"
        )


async def _log_in(context: Context) -> None:
    settings, provider = context.settings, context.given.provider
    check_place(settings)
    steps: AsyncGenerator[DeviceCode | LoggedIn] = imported(LOG_IN)(settings, provider)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, DeviceCode):
                _show_code(context, step, provider)
            else:
                _show_login(context, step, provider)
            # Whoever reads a pipe waits for the code.
            sys.stdout.flush()


def _show_code(context: Context, code: DeviceCode, provider: str) -> None:
    shown = {"user_code": code.user_code, "verification_url": code.url}
    ends = {"expires_at": code.expires_at.isoformat()}
    minutes = max(1, round((code.expires_at - datetime.now(UTC)).total_seconds() / 60))
    context.print_value(
        {"event": "code", "provider": provider, **shown, **ends},
        f"To log in at {PROVIDERS[provider]}, open this page in a browser, on any device:\n\n"
        f"  {code.url}\n\n"
        f"and confirm this code, which is good for {minutes} min:\n\n"
        f"  {code.user_code}\n\n"
        "Never give the code to anybody. Waiting; Ctrl-C stops.",
    )


def _show_login(context: Context, found: LoggedIn, provider: str) -> None:
    """Say that it is done, and have its models used where no others are."""
    told, settings = "", context.settings
    if not found.configured and not elsewhere(settings, ("agent",)):
        path = keep(settings, "model.provider", provider)
        told = f"\nIts models are used from now on (model.provider in {path})."
    elif found.configured != provider:
        told = f"\nTo use its models: hermes config set model.provider {provider}"
    ends = None if found.expires_at is None else found.expires_at.isoformat()
    in_use = found.configured in ("", provider)
    kept = {"file": found.place, "expires_at": ends, "in_use": in_use}
    context.print_value(
        {"event": "logged_in", "provider": provider, **kept},
        f"Logged in at {PROVIDERS[provider]}; the login is kept in {found.place}.{told}",
    )


def _are_shared(settings: Settings) -> bool:
    key = settings.variable(SHARED_KEY) or settings.secret_file(SHARED_KEY)
    return key is not None and bool(key.value)


PROVIDER = arg("provider", choices=tuple(PROVIDERS), help="where to log in or out")
COMMAND = Command(
    EXAMPLES, function=_log_in, arguments=(PROVIDER, flag("--json", "one JSON object a line"))
)
