"""The `web_search` tool."""

from pydantic import Field

from agent_service.tools.base import (
    Effect,
    RetryWithHint,
    ToolArguments,
    ToolContext,
    ToolFailed,
    ToolResult,
    UsualTool,
)
from agent_service.tools.web.engines import Search, SearchFailed


class WebSearchArguments(ToolArguments):
    """Searches the web and returns titles, addresses and short descriptions.

    Read the pages that matter with `web_extract`.
    """

    query: str = Field(min_length=1, max_length=400, description="What to search for.")
    limit: int = Field(default=5, ge=1, le=20, description="Number of results, at most 20.")


class WebSearch(UsualTool[WebSearchArguments]):
    """Searches the web."""

    name = "web_search"
    toolset = "web"
    arguments = WebSearchArguments
    usual_effect = Effect.PURE

    def __init__(self, search: Search) -> None:
        self._search = search

    async def run(self, arguments: WebSearchArguments, context: ToolContext) -> ToolResult:
        query = " ".join(arguments.query.split())
        if not query:
            raise RetryWithHint("The query is empty.")
        try:
            results = await self._search(query, arguments.limit)
        except SearchFailed as error:
            raise ToolFailed(str(error)) from error
        if not results:
            return ToolResult("Nothing was found.")
        return ToolResult(
            "\n\n".join(
                f"{number}. {found.title or 'untitled'}\n{found.url}\n{found.snippet}".rstrip()
                for number, found in enumerate(results, 1)
            )
        )
