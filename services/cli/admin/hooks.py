"""List the hooks of a home, and call them with a sample event."""

import json
from collections.abc import Sequence
from typing import Any

from services.cli.command import JSON_LIST, Command, Context, action, arg
from services.cli.output import Column
from services.cli.startup import imported
from services.errors import InvalidArgument, NotFound
from services.validation import json_object

EXAMPLES = """\
examples:
  hermes hooks list                    list hooks and their problems
  hermes hooks test agent:end
  hermes hooks test command:new --context '{"user_id": "7"}'

Hooks are folders with HOOK.yaml and handler.py in the folder hooks of the gateway's home: use this
command on the gateway's machine. It reads the files themselves; restart Hermes to apply changes of
HOOK.yaml."""

READ = "gateway_service.chats.hooks.hooks:read_hooks"
TRY = "gateway_service.chats.hooks.hooks:try_hooks"


async def _list(context: Context) -> None:
    """List hooks and their problems."""
    folder = context.settings.home.hooks
    context.print_list(imported(READ)(folder), _COLUMNS, f"There are no hooks in {folder}.")


async def _test(context: Context) -> int:
    """Call the hooks that take an event."""
    given = context.given
    about = json_object(given.context)
    if about is None:
        raise InvalidArgument("--context must be a JSON object")
    tried: Sequence[Any] = await imported(TRY)(context.settings, given.event, about)
    if not tried:
        raise NotFound(f"no hook takes {given.event}; see: hermes hooks list")
    lines = list[str]()
    for each in tried:
        text = each.error or f"it returned {json.dumps(each.result, ensure_ascii=False)}"
        lines += (f"{each.name}: {text}", *(f"  {line}" for line in each.output))
    context.print_value(tried, "\n".join(lines))
    return 1 if any(each.error for each in tried) else 0


_COLUMNS = (
    Column("hook", "name"),
    Column("events"),
    Column("what it does", "description"),
    Column("problem"),
)
COMMAND = Command(
    EXAMPLES,
    (
        action(_list, JSON_LIST),
        action(
            _test,
            arg("EVENT", "event, such as agent:end or command:new"),
            arg(
                "--context JSON", "values of the context that differ from the sample", default="{}"
            ),
            JSON_LIST,
        ),
    ),
)
