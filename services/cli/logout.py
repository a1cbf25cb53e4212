"""Forget a login at a model provider, and tell the provider where that is possible."""

from services.cli.command import JSON_OBJECT, Command, Context
from services.cli.console import print_json, say
from services.cli.login import PROVIDER, check_place
from services.cli.startup import imported
from services.logins import PROVIDERS, LoggedOut

EXAMPLES = """\
examples:
  hermes logout nous
  hermes logout codex --json

Nous Portal has a page on which logins end for good; programs cannot tell it."""

LOG_OUT = "agent_service.logins:log_out"


async def _log_out(context: Context) -> None:
    check_place(context.settings)
    left: LoggedOut = await imported(LOG_OUT)(context.settings, context.given.provider)
    title = PROVIDERS[context.given.provider]
    if context.given.json:
        was_there = {"was_logged_in": left.was_there, "revoked": left.revoked}
        print_json({"provider": context.given.provider, **was_there})
    elif not left.was_there:
        say(f"There was no login at {title}.")
    elif left.revoked:
        say(f"Logged out at {title}.")
    else:
        say(f"The login at {title} is forgotten here; end it there as well if others may have it.")


COMMAND = Command(EXAMPLES, function=_log_out, arguments=(PROVIDER, JSON_OBJECT))
