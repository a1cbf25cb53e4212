"""Searches earlier conversations for the model."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_service.records.search_query import Query, excerpt, parse, text_and_calls, text_of
from agent_service.storage import sessions
from agent_service.storage.search import queries
from agent_service.storage.search.queries import Hit, SearchQuery
from agent_service.storage.sessions import SessionInfo
from services.database import Database

_HITS_A_SESSION = 3
_LOOKED_AT = 40
"""The number of matches to group by session."""
_EXCERPT_CHARS = 400
_SHOWN_CHARS = 2000
"""The limit for each message that is shown whole."""
_MOST_CHARS = 24_000


class Lookup(Struct, frozen=True):
    """The model's search."""

    profile: str
    session_id: str
    query: str
    limit: int
    by_relevance: bool
    within: str
    """Search this session only; empty means all but the one that asks."""
    around: int
    window: int
    role: str


class PastMatches(Struct, frozen=True):
    """The answer for the model."""

    text: str
    untrusted: tuple[str, ...]
    """Sources of untrusted data in the shown sessions."""


_Shown = tuple[list[str], str]
"""The shown sessions, and the text."""


class PastSessions:
    """Searches a profile's earlier conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look_up(self, lookup: Lookup, label: str) -> PastMatches:
        """Search; InvalidArgument for a query without words.

        `label` names the session value with the sources of untrusted data.
        """
        query = Query(()) if lookup.around or not lookup.query.strip() else parse(lookup.query)

        def read(conn: Connection) -> PastMatches:
            if lookup.around:
                shown, text = _around(conn, lookup)
            elif query.groups:
                shown, text = _find(conn, lookup, query)
            else:
                shown, text = _latest(conn, lookup)
            sources = [sessions.get_state(conn, session_id, label) or () for session_id in shown]
            return PastMatches(
                text[:_MOST_CHARS], tuple(sorted({one for each in sources for one in each}))
            )

        return await self._database.read(read)


def _find(conn: Connection, lookup: Lookup, query: Query) -> _Shown:
    wanted = SearchQuery(
        lookup.profile,
        query,
        session_id=lookup.within,
        role=lookup.role,
        excluding=() if lookup.within else (lookup.session_id,),
    )
    by_session: dict[str, list[Hit]] = {}
    find = queries.most_relevant if lookup.by_relevance else queries.newest
    while len(by_session) < lookup.limit:
        hits = find(conn, wanted, _LOOKED_AT)
        for hit in hits:
            if hit.session_id in by_session or len(by_session) < lookup.limit:
                by_session.setdefault(hit.session_id, []).append(hit)
        if lookup.within or len(hits) < _LOOKED_AT:
            break
        # A long session must not crowd out the others.
        seen = tuple(by_session)
        wanted = replace(wanted, excluding=(lookup.session_id, *seen))
    parts = [_session(hits, query) for hits in by_session.values()]
    return list(by_session), "\n\n".join(parts) or "Nothing was found."


def _session(hits: Sequence[Hit], query: Query) -> str:
    first = hits[0]
    lines = [f"## {first.session_id} “{first.title}” ({first.platform})"]
    for hit in hits[:_HITS_A_SESSION]:
        text = excerpt(text_and_calls(hit.content), query.words, _EXCERPT_CHARS)
        lines.append(f"[{hit.sequence}] {hit.created_at:%Y-%m-%d %H:%M} {_who(hit)}: {text}")
    if len(hits) > _HITS_A_SESSION:
        lines.append(f"({len(hits) - _HITS_A_SESSION} more messages match)")
    return "\n".join(lines)


def _around(conn: Connection, lookup: Lookup) -> _Shown:
    session_id = lookup.within or lookup.session_id
    info = sessions.get(conn, session_id, lookup.profile)
    between = (lookup.around - lookup.window, lookup.around + lookup.window)
    wanted = SearchQuery(
        lookup.profile, Query(()), session_id=session_id, role=lookup.role, between=between
    )
    lines = [_headline(info)]
    for hit in queries.around(conn, wanted):
        text = text_of(hit.content["content"])
        calls = [call["function"] for call in hit.content.get("tool_calls", ())]
        text += "".join(f"\n▸ {call['name']} {call['arguments'][:300]}" for call in calls)
        cut = f"{text[:_SHOWN_CHARS]} […]" if len(text) > _SHOWN_CHARS else text
        lines.append(f"[{hit.sequence}] {hit.created_at:%Y-%m-%d %H:%M} {_who(hit)}: {cut}")
    return [session_id], "\n".join(lines)


def _latest(conn: Connection, lookup: Lookup) -> _Shown:
    found = sessions.list_by_use(conn, lookup.profile, "", None, lookup.limit + 1)
    others = [info for info in found if info.session_id != lookup.session_id][: lookup.limit]
    lines = map(_headline, others)
    return [info.session_id for info in others], "\n".join(lines) or "There are no other sessions."


def _headline(info: SessionInfo) -> str:
    used = f"{info.update_time:%Y-%m-%d %H:%M}, {info.message_count} messages"
    return f"## {info.session_id} “{info.title}” ({info.platform}, {used})"


def _who(hit: Hit) -> str:
    return str(hit.content["role"])
