"""List, show, search, rename, branch, undo, export, import and delete sessions."""

import argparse
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import session_change_pb2 as change_pb
from hermes.agent.v1 import session_pb2 as pb
from hermes.agent.v1.session_pb2_grpc import SessionServiceStub
from services.amounts import plural
from services.cli.arguments import INT32, INT64, length, up_to
from services.cli.command import (
    DRY_RUN,
    JSON_LIST,
    JSON_OBJECT,
    YES,
    Command,
    Context,
    action,
    arg,
    flag,
    limit,
)
from services.cli.console import complain, printable, say
from services.cli.output import Column, field_value, json_value, local_time, print_json
from services.cli.sessions.files import ACTIONS as FILE_ACTIONS
from services.cli.sessions.files import find
from services.cli.sessions.messages import all_messages
from services.errors import InvalidArgument
from services.ids import new_session_id

EXAMPLES = """\
examples:
  hermes sessions list
  hermes sessions list --limit 5 --json
  hermes sessions show 20261121_101500_a1b2c3
  hermes sessions show 20261121_101500_a1b2c3 --json
  hermes sessions search docker network
  hermes sessions search '"exit code 137"' --role tool --since 2026-10-01
  hermes sessions search invoice OR receipt --sort relevance --json
  hermes sessions search --session 20261121_101500_a1b2c3 --around 12
  hermes sessions rename 20261121_101500_a1b2c3 "holiday plans"
  hermes sessions branch 20261121_101500_a1b2c3 --through 8
  hermes sessions undo 20261121_101500_a1b2c3 --turns 2
  hermes sessions export 20261121_101500_a1b2c3 > session.json
  hermes sessions export --all --to sessions-backup
  hermes sessions import old-home/sessions
  hermes sessions delete 20261121_101500_a1b2c3 --yes
  hermes sessions prune --unused-for 90d --dry-run

Give a session by its id or its title."""

_ROLES = ("assistant", "tool", "user")
_ORDERS = ("newest", "relevance")

_SESSION = (
    Column("session", "session_id"),
    Column("used", "update_time"),
    Column("from", "platform"),
    Column("messages", "message_count"),
    Column("title"),
)


async def _list(context: Context) -> None:
    """List sessions, the most recently used first."""
    request = context.request(pb.ListSessionsRequest)
    found = (await context.stub(SessionServiceStub).ListSessions(request)).sessions
    nothing = "There are no sessions yet. Start one with: hermes chat"
    context.print_list(found, _SESSION, nothing)


async def _show(context: Context) -> None:
    """Show the messages of a session."""
    session = await find(context)
    stub = context.stub(SessionServiceStub)
    read = all_messages(stub, session.session_id, context.profile)
    messages = [message async for message in read]
    if context.given.json:
        print_json({**json_value(session), "messages": messages})
        return
    for message in messages:
        when = local_time(message.create_time, seconds=True)
        say(f"── {message.sequence} {field_value(message, 'role')}  {when}")
        if message.text:
            say(printable(message.text))
        for call in message.tool_calls:
            say(printable(f"▸ {call.name}  {call.arguments_json}"))


async def _search(context: Context) -> None:
    """Search the messages of all sessions."""
    if context.given.around_sequence and not context.given.session:
        raise InvalidArgument("--around needs --session")
    request = context.request(
        pb.SearchMessagesRequest,
        query=" ".join(context.given.query),
        order=f"SEARCH_ORDER_{context.given.sort.upper()}",
        session_id=(await find(context)).session_id if context.given.session else "",
        role=f"ROLE_{context.given.role.upper()}",
        window=context.given.window if context.given.around_sequence else 0,
    )
    hits = (await context.stub(SessionServiceStub).SearchMessages(request)).hits
    if context.given.json:
        print_json(hits)
        return
    shown = ""
    for hit in hits:
        if hit.session_id != shown:
            shown = hit.session_id
            say(f"── {hit.session_id}  {printable(hit.title)}")
        text = f"{hit.sequence} {field_value(hit, 'role')}: {printable(hit.excerpt)}"
        say(f"{local_time(hit.create_time)}  {text}")
    if not hits:
        complain("no message matches")


async def _rename(context: Context) -> None:
    """Give a session a title."""
    found = await find(context)
    request = context.request(pb.RenameSessionRequest, session_id=found.session_id)
    session = (await context.stub(SessionServiceStub).RenameSession(request)).session
    text = f"{session.session_id} is now called {session.title}"
    context.print_value(session, text)


async def _branch(context: Context) -> None:
    """Start a new session with the messages of another one."""
    found = await find(context)
    request = context.request(
        pb.BranchSessionRequest,
        session_id=found.session_id,
        new_session_id=new_session_id(datetime.now(UTC).astimezone()),
    )
    session = (await context.stub(SessionServiceStub).BranchSession(request)).session
    has = plural(session.message_count, "message")
    text = (
        f"{session.session_id} starts with {has}; open it with:\n"
        f"hermes chat --resume {session.session_id}"
    )
    context.print_value(session, text)


async def _undo(context: Context) -> None:
    """Remove the last turns from a session; changes that they made to files stay."""
    found = await find(context)
    request = context.request(
        change_pb.UndoTurnsRequest,
        session_id=found.session_id,
        expected_message_count=found.message_count,
    )
    undone = await context.stub(SessionServiceStub).UndoTurns(request)
    left = plural(undone.message_count, "message is", "messages are")
    message = f"removed {plural(undone.turn_count, 'turn')}; {left} left"
    text = "\n".join(filter(None, (message, undone.user_text)))
    context.print_value({"session_id": found.session_id, **json_value(undone)}, text)


async def _delete(context: Context) -> None:
    """Delete a session permanently."""
    found = await find(context)
    has = plural(found.message_count, "message")
    question = f"Delete {found.session_id} “{found.title}”, {has}?"
    await context.confirm(question, "use --yes", "nothing was deleted")
    request = context.request(change_pb.DeleteSessionRequest, session_id=found.session_id)
    await context.stub(SessionServiceStub).DeleteSession(request)
    say(f"deleted {found.session_id}")


async def _prune(context: Context) -> None:
    """Delete unnamed sessions that nobody has used for some time."""
    given = context.given
    found = await _pruned(context, dry_run=True)
    if found and not given.dry_run:
        question = f"Delete {plural(len(found), 'session')}?"
        await context.confirm(question, "use --yes", "nothing was deleted")
        found = await _pruned(context, dry_run=False)
    done = "would delete" if given.dry_run else "deleted"
    text = f"{done} {plural(len(found), 'session')}"
    context.print_value(found, "\n".join((*found, text)))


async def _pruned(context: Context, *, dry_run: bool) -> list[str]:
    stub = context.stub(SessionServiceStub)
    request = context.request(change_pb.PruneSessionsRequest, dry_run=dry_run)
    pruned: list[str] = []
    while True:
        answer = await stub.PruneSessions(request)
        pruned += answer.session_ids
        request.after_session_id = answer.next_after_session_id
        if not answer.next_after_session_id:
            return pruned


def _moment(text: str) -> Timestamp:
    """Parse a date or time, local unless it names a zone."""
    stamp = Timestamp()
    try:
        stamp.FromDatetime(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        wanted = "a date such as 2026-11-21 or a time such as 2026-11-21T08:30"
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None
    return stamp


_NAME = arg("SESSION", "id or title of the session")
_SEARCHING = (
    arg("QUERY*", 'words, "phrases", OR between alternatives'),
    limit(),
    arg("--sort", "order of the results (newest)", choices=_ORDERS, default="newest"),
    arg("--session SESSION", "search only this session", default=""),
    arg("--role", "search only messages of this role", choices=_ROLES, default="unspecified"),
    arg("--since DATE", "search from this date or time on", _moment, field="since_time"),
    arg("--until DATE", "search before this date or time", _moment, field="until_time"),
    arg(
        "--around N",
        "show messages around number N of --session",
        up_to(INT64),
        field="around_sequence",
    ),
    arg("--window N", "with --around: how many messages (5)", up_to(INT32), default=5),
    JSON_LIST,
)
_BRANCHING = (
    _NAME,
    arg(
        "--through N",
        "copy only up to the turn of message N",
        up_to(INT64),
        field="through_sequence",
    ),
    arg("--title", "title of the new session"),
    JSON_OBJECT,
)
_PRUNING = (
    arg(
        "--unused-for TIME",
        "minimum time without use, such as 90d, 12h, 8w",
        length(36_500, 1),
        required=True,
    ),
    arg("--platform", "only sessions from this platform"),
    flag("--named", "also sessions that somebody has renamed", field="include_named"),
    DRY_RUN,
    YES,
    JSON_LIST,
)
_TITLE = arg("TITLE", "the new title")
_TURNS = arg("--turns N", "how many turns (1)", up_to(INT32), field="turn_count", default=1)
_ACTIONS = (
    action(_list, limit(), JSON_LIST),
    action(_show, _NAME, JSON_OBJECT),
    action(_search, *_SEARCHING),
    action(_rename, _NAME, _TITLE, JSON_OBJECT),
    action(_branch, *_BRANCHING),
    action(_undo, _NAME, _TURNS, JSON_OBJECT),
    *FILE_ACTIONS,
    action(_delete, _NAME, YES),
    action(_prune, *_PRUNING),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("agent",))
