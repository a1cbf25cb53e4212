"""Log out of a model provider, and revoke the login if the provider supports it."""

from services.cli.admin.login import PROVIDER, check_place
from services.cli.command import JSON_OBJECT, Command, Context
from services.cli.startup import imported
from services.runtime.logins import PROVIDERS, LoggedOut

EXAMPLES = """\
examples:
  hermes logout nous
  hermes logout codex --json

To revoke a login of Nous Portal, use its web page."""

LOG_OUT = "agent_service.assembly.logins:log_out"


async def _log_out(context: Context) -> None:
    check_place(context.settings)
    left: LoggedOut = await imported(LOG_OUT)(context.settings, context.given.provider)
    title = PROVIDERS[context.given.provider]
    text = f"Removed the login to {title} here. Revoke it there as well if others may have a copy."
    if left.revoked or not left.was_there:
        text = f"Logged out of {title}." if left.revoked else f"There was no login to {title}."
    was_there = {"was_logged_in": left.was_there, "revoked": left.revoked}
    context.print_value({"provider": context.given.provider, **was_there}, text)


COMMAND = Command(EXAMPLES, function=_log_out, arguments=(PROVIDER, JSON_OBJECT))
