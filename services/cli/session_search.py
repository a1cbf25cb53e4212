"""Finds what was said, for `hermes sessions search`."""

import argparse
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hermes.agent.v1 import session_pb2
from services.cli.arguments import INT32, INT64, Actions, up_to
from services.cli.console import print_json, printable, say
from services.cli.session_desk import ROLES, Action, Desk, local
from services.errors import InvalidArgument

_ROLES = {name: role for role, name in ROLES.items()}
_ORDERS = {
    "newest": session_pb2.SEARCH_ORDER_NEWEST,
    "relevance": session_pb2.SEARCH_ORDER_RELEVANCE,
}


def add_arguments(actions: Actions) -> None:
    """The options of `hermes sessions search`."""
    search = actions.add("search", "find what was said, in all sessions")
    search.add_argument(
        "query", nargs="*", help='words that must all be there, "phrases", OR between two'
    )
    search.add_argument("--limit", type=up_to(INT32), default=20, metavar="N", help="how many (20)")
    search.add_argument("--sort", choices=sorted(_ORDERS), default="newest", help="newest first")
    search.add_argument("--session", default="", metavar="SESSION", help="only in this one")
    search.add_argument("--role", choices=sorted(_ROLES), help="only what this one said")
    search.add_argument("--since", type=_moment, metavar="DATE", help="from this day or time on")
    search.add_argument("--until", type=_moment, metavar="DATE", help="before this day or time")
    search.add_argument(
        "--around", type=up_to(INT64), default=0, metavar="N", help="near message N of --session"
    )
    search.add_argument(
        "--window",
        type=up_to(INT32),
        default=5,
        metavar="N",
        help="how many before and after it (5)",
    )
    search.add_argument("--json", action="store_true", help="one JSON list")


async def _search(desk: Desk) -> int:
    given = desk.arguments
    if given.around and not given.session:
        raise InvalidArgument("--around goes with --session")
    session_id = (await desk.find(given.session)).session_id if given.session else ""
    request = session_pb2.SearchMessagesRequest(
        profile=desk.profile,
        query=_quoted(given.query),
        order=_ORDERS[given.sort],
        page_size=given.limit,
        session_id=session_id,
        role=_ROLES[given.role] if given.role else session_pb2.ROLE_UNSPECIFIED,
        since_time=given.since,
        until_time=given.until,
        around_sequence=given.around,
        window=given.window if given.around else 0,
    )
    hits = (await desk.stub.SearchMessages(request)).hits
    if given.json:
        print_json([_described(hit) for hit in hits])
        return 0
    shown = ""
    for hit in hits:
        if hit.session_id != shown:
            shown = hit.session_id
            say(f"── {hit.session_id}  {printable(hit.title)}")
        when = f"{local(hit.create_time):%Y-%m-%d %H:%M}"
        say(f"{when}  {hit.sequence} {ROLES[hit.role]}: {printable(hit.excerpt)}")
    if not hits:
        sys.stderr.write("hermes: nothing was found\n")
    return 0


def _quoted(words: list[str]) -> str:
    """The words as one query; what the shell has kept together with spaces stays a phrase."""
    alone = len(words) == 1
    return " ".join(
        word if alone or '"' in word or not re.search(r"\s", word) else f'"{word}"'
        for word in words
    )


def _described(hit: session_pb2.MessageHit) -> Mapping[str, Any]:
    return {
        "session_id": hit.session_id,
        "title": hit.title,
        "platform": hit.platform,
        "sequence": hit.sequence,
        "role": ROLES[hit.role],
        "timestamp": hit.create_time.ToJsonString(),
        "excerpt": hit.excerpt,
    }


def _moment(text: str) -> Timestamp:
    """A date or a time, which is local where it names no zone."""
    stamp = Timestamp()
    try:
        stamp.FromDatetime(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        wanted = "a day such as 2026-11-21, or a time such as 2026-11-21T08:30"
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}") from None
    return stamp


ACTIONS: Mapping[str, Action] = {"search": _search}
