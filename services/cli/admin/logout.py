"""Forget a login at a model provider, and tell the provider where that is possible."""

from services.cli.admin.login import PROVIDER, check_place
from services.cli.command import JSON_OBJECT, Command, Context
from services.cli.startup import imported
from services.runtime.logins import PROVIDERS, LoggedOut

EXAMPLES = """\
examples:
  hermes logout nous
  hermes logout codex --json

Nous Portal has a page on which logins end for good; programs cannot tell it."""

LOG_OUT = "agent_service.assembly.logins:log_out"


async def _log_out(context: Context) -> None:
    check_place(context.settings)
    left: LoggedOut = await imported(LOG_OUT)(context.settings, context.given.provider)
    title = PROVIDERS[context.given.provider]
    told = f"The login at {title} is forgotten here; end it there as well if others may have it."
    if left.revoked or not left.was_there:
        told = f"Logged out at {title}." if left.revoked else f"There was no login at {title}."
    was_there = {"was_logged_in": left.was_there, "revoked": left.revoked}
    context.print_value({"provider": context.given.provider, **was_there}, told)


COMMAND = Command(EXAMPLES, function=_log_out, arguments=(PROVIDER, JSON_OBJECT))
