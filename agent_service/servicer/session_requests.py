"""Session requests, sessions and messages on the wire."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Connection

from agent_service.records.search_query import Query, excerpt, parse, text_and_calls, text_of
from agent_service.servicer.fields import profile_of
from agent_service.storage.search import queries
from agent_service.storage.search.queries import Hit, SearchQuery
from agent_service.storage.session_changes import PruneFilter
from agent_service.storage.sessions import StoredMessage
from hermes.agent.v1 import session_change_pb2
from hermes.agent.v1 import session_pb2 as pb
from services.errors import InvalidArgument
from services.rpc.messages import enum_word, message_of

EXCERPT_CHARS = 300

MAX_TITLE_CHARS = 200
MAX_MODEL_CHARS = 200
MAX_WINDOW, USUAL_WINDOW = 50, 5
_YEAR = timedelta(days=365)


def searching(
    request: pb.SearchMessagesRequest, size: int
) -> Callable[[Connection], Sequence[Hit]]:
    """Return the search for a request; it finds one hit more than a page if there are more."""
    around = not_negative("around_sequence", request.around_sequence)
    if around and not request.session_id:
        raise InvalidArgument(
            "which session's message?", fields={"session_id": "goes with around_sequence"}
        )
    by_relevance = request.order == pb.SEARCH_ORDER_RELEVANCE
    has_query = bool(request.query.strip()) or not around
    wanted = SearchQuery(
        profile=profile_of(request.profile),
        query=parse(request.query) if has_query else Query(()),
        session_id=request.session_id,
        role=enum_word(pb.Role.DESCRIPTOR, request.role),
        since=_moment(request.since_time) if request.HasField("since_time") else None,
        until=_moment(request.until_time) if request.HasField("until_time") else None,
        between=_between(around, request.window),
        before=_before(request.page_token),
    )
    if by_relevance and request.page_token:
        raise InvalidArgument("by relevance there is one page", fields={"page_token": "empty"})
    if not has_query:
        return lambda conn: queries.around(conn, wanted)
    if by_relevance:
        return lambda conn: queries.most_relevant(conn, wanted, size)
    return lambda conn: queries.newest(conn, wanted, size + 1)


def hits_response(
    request: pb.SearchMessagesRequest, found: Sequence[Hit], size: int
) -> pb.SearchMessagesResponse:
    """Return the page of hits."""
    has_query = bool(request.query.strip())
    words = parse(request.query).words if has_query else frozenset[str]()
    page = found[:size] if has_query else found
    return pb.SearchMessagesResponse(
        hits=[_hit(one, words) for one in page],
        next_page_token=str(page[-1].id) if len(found) > len(page) else "",
    )


def unused(request: session_change_pb2.PruneSessionsRequest, now: datetime) -> PruneFilter:
    """Return the filter of a prune request."""
    for_so_long = request.unused_for.ToTimedelta()
    if not timedelta(seconds=1) <= for_so_long <= 100 * _YEAR:
        raise InvalidArgument(
            "unused_for is out of range", fields={"unused_for": "1 s to 100 years"}
        )
    return PruneFilter(
        profile=profile_of(request.profile),
        since=now - for_so_long,
        platform=request.platform,
        include_named=request.include_named,
        after=request.after_session_id,
    )


def title_given(text: str) -> str:
    """Return a title on one line; InvalidArgument if it is too long."""
    title = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(title) > MAX_TITLE_CHARS:
        raise InvalidArgument(
            "the title is too long", fields={"title": f"at most {MAX_TITLE_CHARS} characters"}
        )
    return title


def model_given(text: str) -> str:
    """Return a model id; InvalidArgument if it cannot be one."""
    model = text.strip()
    if len(model) > MAX_MODEL_CHARS or not model.isprintable() or " " in model:
        problem = f"at most {MAX_MODEL_CHARS} characters without spaces"
        raise InvalidArgument(f"no model is called like this: {problem}", fields={"model": problem})
    return model


def not_negative(field: str, value: int) -> int:
    """Return the value; InvalidArgument if it is negative."""
    if value < 0:
        raise InvalidArgument(f"{field} is negative", fields={field: "0 or more"})
    return value


def _between(around: int, window: int) -> tuple[int, int] | None:
    if not 0 <= window <= MAX_WINDOW:
        raise InvalidArgument("window is out of range", fields={"window": f"0 to {MAX_WINDOW}"})
    reach = window or USUAL_WINDOW
    return (around - reach, around + reach) if around else None


def _before(token: str) -> int | None:
    if token and not (token.isdecimal() and token.isascii() and len(token) < 19):
        raise InvalidArgument("not a page token", fields={"page_token": "as it was sent"})
    return int(token) if token else None


def _moment(stamp: Timestamp) -> datetime:
    try:
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            "not a time", fields={"since_time": "of the years 1 to 9999"}
        ) from None


def message(stored: StoredMessage) -> pb.Message:
    """Return a message on the wire."""
    content = stored.content
    return message_of(
        stored,
        pb.Message,
        role=content["role"],
        text=text_of(content["content"]),
        tool_calls=[_tool_call(call) for call in content.get("tool_calls", ())],
        tool_call_id=content.get("tool_call_id"),
        create_time=stored.created_at,
    )


def _hit(found: Hit, words: frozenset[str]) -> pb.MessageHit:
    shown = excerpt(text_and_calls(found.content), words, EXCERPT_CHARS)
    role, at = found.content["role"], found.created_at
    return message_of(found, pb.MessageHit, role=role, excerpt=shown, create_time=at)


def _tool_call(call: dict[str, Any]) -> pb.ToolCall:
    function = call["function"]
    return pb.ToolCall(
        call_id=call["id"], name=function["name"], arguments_json=function["arguments"]
    )
