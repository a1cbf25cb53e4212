"""Show the memory that all sessions share and its history, undo changes, and set up Honcho."""

import difflib
import sys
from collections.abc import Iterator, Sequence
from getpass import getpass

from hermes.agent.v1 import memory_pb2 as pb
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from services.amounts import plural
from services.cli.command import JSON_LIST, JSON_OBJECT, Command, Context, action, arg, limit
from services.cli.output import field_value, local_time
from services.cli.startup import imported, keep
from services.errors import InvalidArgument

EXAMPLES = """\
examples:
  hermes memory show
  hermes memory show --json
  hermes memory history --limit 5
  hermes memory undo chg_06gzq0v2k5t1v9d3c4m8h7w2a0
  hermes memory status                        whether an external memory is used, and answers
  hermes memory setup                         use Honcho in addition to Hermes' memory
  hermes memory setup --base-url http://localhost:8000"""

PROBE = "agent_service.assembly.checks:probe_honcho"


async def _show(context: Context) -> None:
    """Show the memory."""
    answer = await context.stub(MemoryServiceStub).GetMemory(context.request(pb.GetMemoryRequest))
    _print(context, answer.memories)


async def _history(context: Context) -> None:
    """List changes of the memory, the newest first."""
    request = context.request(pb.ListMemoryChangesRequest)
    changes = (await context.stub(MemoryServiceStub).ListMemoryChanges(request)).changes
    text = "\n".join(line for change in changes for line in _change(change))
    context.print_value(changes, text or "The memory has no changes yet.")


def _change(change: pb.MemoryChange) -> Iterator[str]:
    where = f", turn {change.turn_id}" if change.turn_id else ""
    yield f"── {change.change_id}  {local_time(change.create_time, seconds=True)}"
    yield f"{field_value(change, 'target')}, by {change.changed_by}{where}"
    before, after = change.before.splitlines(), change.after.splitlines()
    for line in difflib.unified_diff(before, after, lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")):
            yield line


async def _undo(context: Context) -> None:
    """Undo a change, unless the memory has changed since."""
    request = context.request(pb.UndoMemoryChangeRequest)
    answer = await context.stub(MemoryServiceStub).UndoMemoryChange(request)
    _print(context, [answer.memory])


async def _status(context: Context) -> None:
    """Show whether an external memory is used, and what it knows about you."""
    request = context.request(pb.GetMemoryProviderRequest)
    found = await context.stub(MemoryServiceStub).GetMemoryProvider(request)
    if not found.name:
        context.print_value(found, "No external memory is used. For Honcho: hermes memory setup")
        return
    lines = [f"{found.name}: {found.problem or 'it answers'}"]
    if found.waiting_session_count:
        sessions = plural(found.waiting_session_count, "session")
        lines.append(f"It has not yet got the latest messages of {sessions}.")
    context.print_value(found, "\n\n".join(filter(None, ("\n".join(lines), found.block))))


async def _setup(context: Context) -> None:
    """Use Honcho in addition to Hermes' memory."""
    given, settings = context.given, context.settings
    found = settings.variable("HONCHO_API_KEY")
    key = "" if found is None else str(found.value)
    if not (key or given.base_url):
        if not sys.stdin.isatty():
            raise InvalidArgument("there is no terminal for questions; set HONCHO_API_KEY first")
        key = getpass("Key for Honcho, from app.honcho.dev: ").strip()
        if not key:
            raise InvalidArgument("no key was given")
    told = await imported(PROBE)(settings, key, given.base_url)
    if found is None and key:
        keep(settings, "HONCHO_API_KEY", key)
    if given.base_url:
        keep(settings, "honcho.base_url", given.base_url)
    path = keep(settings, "memory.provider", "honcho")
    told += f" memory.provider in {path} is now honcho. Restart Hermes to apply it."
    context.print_value({"provider": "honcho"}, told)


def _print(context: Context, memories: Sequence[pb.Memory]) -> None:
    by_target = {field_value(one, "target"): one for one in memories}
    context.print_value(by_target, "\n".join(line for one in memories for line in _memory(one)))


def _memory(memory: pb.Memory) -> Iterator[str]:
    by_hand = (
        ", edited by hand (Hermes keeps a copy before it changes the file)"
        if memory.drifted
        else ""
    )
    used = f"{memory.char_count} of {memory.char_limit} characters"
    yield f"── {field_value(memory, 'target')}  {used}{by_hand}"
    yield from (f"• {entry}" for entry in memory.entries)
    if not memory.entries:
        yield "Empty."


_ID = arg("ID", "id of the change, from hermes memory history", field="change_id")
_ACTIONS = (
    action(_show, JSON_OBJECT),
    action(_history, limit(), JSON_LIST),
    action(_undo, _ID, JSON_OBJECT),
    action(_status, JSON_OBJECT),
    action(
        _setup,
        arg("--base-url URL", "a Honcho server of your own", default=""),
        JSON_OBJECT,
        services=(),
    ),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("agent",))
