"""Names, branches, takes back, deletes and prunes conversations, for `hermes sessions`."""

import argparse
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration

from hermes.agent.v1 import session_change_pb2, session_pb2
from services.cli.arguments import INT32, INT64, Actions, up_to
from services.cli.console import complain, print_json, printable, say
from services.cli.session_desk import Action, Desk, described
from services.cli.standard_input import agreed
from services.ids import new_session_id

_UNITS = {"d": "days", "h": "hours", "w": "weeks"}
_LONG = re.compile(r"(\d{1,5})([dhw])")


def add_arguments(actions: Actions) -> None:
    """The options of the actions that change a session."""
    rename = actions.add("rename", "give a session a title, by which it can be resumed")
    _names(rename)
    rename.add_argument("title", help="what it is called from now on")
    rename.add_argument("--json", action="store_true", help="one JSON object")
    branch = actions.add("branch", "make a new session that begins with what was said in another")
    _names(branch)
    branch.add_argument(
        "--through",
        type=up_to(INT64),
        default=0,
        metavar="N",
        help="only up to the turn of message N",
    )
    branch.add_argument("--title", default="", help="what the new one is called")
    branch.add_argument("--json", action="store_true", help="one JSON object")
    undo = actions.add("undo", "take back the last turns: what was said, not what was done")
    _names(undo)
    undo.add_argument("--turns", type=up_to(INT32), default=1, metavar="N", help="how many (1)")
    undo.add_argument("--json", action="store_true", help="one JSON object")
    delete = actions.add("delete", "delete a session for good")
    _names(delete)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    prune = actions.add("prune", "delete sessions that were not used for long and have no name")
    prune.add_argument(
        "--unused-for", type=_duration, required=True, metavar="TIME", help="such as 90d, 12h, 8w"
    )
    prune.add_argument("--platform", default="", help="only those that came from there")
    prune.add_argument("--named", action="store_true", help="also those that were given a title")
    prune.add_argument("--dry-run", action="store_true", help="only list them")
    prune.add_argument("--yes", action="store_true", help="do not ask")
    prune.add_argument("--json", action="store_true", help="one JSON list of ids")


async def _rename(desk: Desk) -> int:
    found = await desk.find(desk.arguments.session)
    request = session_pb2.RenameSessionRequest(
        session_id=found.session_id, profile=desk.profile, title=desk.arguments.title
    )
    session = (await desk.stub.RenameSession(request)).session
    if desk.arguments.json:
        print_json(described(session))
    else:
        say(f"{session.session_id} is called {printable(session.title)}")
    return 0


async def _branch(desk: Desk) -> int:
    found = await desk.find(desk.arguments.session)
    request = session_pb2.BranchSessionRequest(
        session_id=found.session_id,
        profile=desk.profile,
        new_session_id=new_session_id(datetime.now(UTC).astimezone()),
        through_sequence=desk.arguments.through,
        title=desk.arguments.title,
    )
    session = (await desk.stub.BranchSession(request)).session
    if desk.arguments.json:
        print_json(described(session))
    else:
        say(f"{session.session_id} begins with {session.message_count} messages")
        say(f"hermes chat --resume {session.session_id}")
    return 0


async def _undo(desk: Desk) -> int:
    found = await desk.find(desk.arguments.session)
    request = session_change_pb2.UndoTurnsRequest(
        session_id=found.session_id,
        profile=desk.profile,
        turn_count=desk.arguments.turns,
        expected_message_count=found.message_count,
    )
    undone = await desk.stub.UndoTurns(request)
    if desk.arguments.json:
        print_json(
            {
                "session_id": found.session_id,
                "turn_count": undone.turn_count,
                "message_count": undone.message_count,
                "user_text": undone.user_text,
            }
        )
        return 0
    say(f"{undone.turn_count} turns are taken back, {undone.message_count} messages are left")
    if undone.user_text:
        say(printable(undone.user_text))
    return 0


async def _delete(desk: Desk) -> int:
    found = await desk.find(desk.arguments.session)
    question = f"Delete {found.session_id} “{found.title}”, {found.message_count} messages?"
    if not desk.arguments.yes and not await agreed(question, "delete it with --yes"):
        complain("nothing was deleted")
        return 1
    request = session_change_pb2.DeleteSessionRequest(
        session_id=found.session_id, profile=desk.profile
    )
    await desk.stub.DeleteSession(request)
    say(f"{found.session_id} is deleted")
    return 0


async def _prune(desk: Desk) -> int:
    given = desk.arguments
    found = await _pruned(desk, dry_run=True)
    if found and not given.dry_run:
        question = f"Delete {len(found)} sessions?"
        if not given.yes and not await agreed(question, "delete them with --yes"):
            complain("nothing was deleted")
            return 1
        found = await _pruned(desk, dry_run=False)
    if given.json:
        print_json(found)
        return 0
    for session_id in found:
        say(session_id)
    done = "would be deleted" if given.dry_run else "are deleted"
    say(f"{len(found)} sessions {done}")
    return 0


async def _pruned(desk: Desk, *, dry_run: bool) -> list[str]:
    pruned: list[str] = []
    after = ""
    while True:
        request = session_change_pb2.PruneSessionsRequest(
            profile=desk.profile,
            unused_for=desk.arguments.unused_for,
            platform=desk.arguments.platform,
            include_named=desk.arguments.named,
            dry_run=dry_run,
            after_session_id=after,
        )
        answer = await desk.stub.PruneSessions(request)
        pruned += answer.session_ids
        after = answer.next_after_session_id
        if not after:
            return pruned


def _names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="its id or title")


def _duration(text: str) -> Duration:
    found = _LONG.fullmatch(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90d, 12h or 8w")
    duration = Duration()
    duration.FromTimedelta(timedelta(**{_UNITS[found[2]]: int(found[1])}))
    return duration


ACTIONS: Mapping[str, Action] = {
    "rename": _rename,
    "branch": _branch,
    "undo": _undo,
    "delete": _delete,
    "prune": _prune,
}
