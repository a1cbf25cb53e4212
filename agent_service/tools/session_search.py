"""The `session_search` tool: searches earlier sessions."""

from typing import Literal

from pydantic import Field

from agent_service.sessions.past_sessions import Lookup, PastSessions
from agent_service.storage.sessions import TAINT
from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.guards.taint import fenced, taint
from services.errors import InvalidArgument, NotFound

_MOST_ID = 2**30
"""More than any message's id, and still fits a database column."""


class SessionSearchArguments(ToolArguments):
    """Searches earlier sessions with this user, the newest first.

    A message has to contain all words of the query; a "phrase" and OR are possible. To read on at a
    result, give its session_id, and the number in brackets as around_message_id. Without a query,
    it lists the latest sessions.
    """

    query: str = Field(default="", max_length=1000, description="What to look for.")
    limit: int = Field(default=3, ge=1, le=10, description="How many sessions to show.")
    sort: Literal["newest", "relevance"] = Field(
        default="newest", description="What comes first: the newest sessions, or the best matches."
    )
    session_id: str = Field(
        default="",
        max_length=128,
        description="Search only this session; empty searches all but the current one.",
    )
    around_message_id: int = Field(
        default=0, ge=0, description="Show the messages around this one in session_id."
    )
    window: int = Field(
        default=5, ge=1, le=20, description="How many messages to show before and after it."
    )
    role_filter: Literal["", "user", "assistant", "tool"] = Field(
        default="", description="Search only messages of this role."
    )


class SessionSearch(UsualTool[SessionSearchArguments]):
    """Searches earlier sessions."""

    name = "session_search"
    toolset = "session"
    arguments = SessionSearchArguments
    usual_effect = Effect.PURE

    def __init__(self, past: PastSessions) -> None:
        self._past = past

    async def run(self, arguments: SessionSearchArguments, context: ToolContext) -> ToolResult:
        lookup = Lookup(
            profile=context.caller.profile,
            session_id=context.caller.session_id,
            query=arguments.query,
            limit=arguments.limit,
            by_relevance=arguments.sort == "relevance",
            within=arguments.session_id,
            around=min(arguments.around_message_id, _MOST_ID),
            window=arguments.window,
            role=arguments.role_filter,
        )
        try:
            found = await self._past.look_up(lookup, TAINT)
        except InvalidArgument as error:
            raise RetryWithHint(error.message) from error
        except NotFound as error:
            raise ToolFailed(error.message) from error
        if not found.untrusted:
            return ToolResult(found.text)
        # Untrusted data of an earlier session taints this one too.
        for source in found.untrusted:
            await taint(context.state, source)
        return ToolResult(fenced(found.text, ", ".join(found.untrusted)))
