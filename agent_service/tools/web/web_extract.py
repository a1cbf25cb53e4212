"""The `web_extract` tool."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from agent_service.security.fetch.urls import Fetched, Fetcher, FetchFailed, FetchRefused
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from agent_service.tools.web.pages import PagesUnreadable, is_html, is_text, read_pages
from services.lifecycle import all_of

MAX_URLS = 5
MAX_CHARACTERS = 80_000
"""Of all pages together, so that the result stays one that a model can read."""


class WebExtractArguments(ToolArguments):
    """Reads web pages and returns their main text as Markdown.

    Only public pages on the usual ports can be read. Long pages are cut; files that are no text are
    not shown.
    """

    urls: tuple[str, ...] = Field(
        min_length=1, max_length=MAX_URLS, description="The pages' http or https URLs, at most 5."
    )


class WebExtract(UsualTool[WebExtractArguments]):
    """Reads web pages."""

    name = "web_extract"
    toolset = "web"
    arguments = WebExtractArguments
    usual_effect = Effect.PURE

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def run(self, arguments: WebExtractArguments, context: ToolContext) -> ToolResult:
        """Fetch the pages side by side, and read them."""
        urls = list(dict.fromkeys(arguments.urls))
        fetched = dict(zip(urls, await all_of(map(self._fetch, urls)), strict=True))
        pages = {url: page for url, page in fetched.items() if isinstance(page, Fetched)}
        texts = await _texts(pages)
        room = MAX_CHARACTERS // len(urls)
        parts: list[str] = []
        for url in urls:
            page = pages.get(url)
            text = str(fetched[url]) if page is None else texts[url]
            parts.append(_part(url, page, text, room))
        return ToolResult("\n\n".join(parts), is_error=not pages)

    async def _fetch(self, url: str) -> Fetched | str:
        try:
            page = await self._fetcher.get(url)
        except FetchRefused as refused:
            return f"Not fetched: {refused}."
        except FetchFailed as failed:
            return f"Could not be fetched: {failed}."
        if not 200 <= page.status < 300:
            return f"Could not be fetched: the server answered with status {page.status}."
        if not is_html(page) and not is_text(page):
            return f"It is a file of type {page.content_type[:80]}, which has no text to show."
        return page


async def _texts(pages: Mapping[str, Fetched]) -> dict[str, str]:
    """What each page says, by the URL that it was asked for by."""
    texts = {url: page.text for url, page in pages.items() if not is_html(page)}
    markup = [url for url in pages if url not in texts]
    try:
        read = await read_pages([pages[url] for url in markup])
    except PagesUnreadable as error:
        return texts | await _one_by_one(pages, markup, error)
    for url, found in zip(markup, read, strict=True):
        texts[url] = "\n\n".join(filter(None, (found.title and f"# {found.title}", found.text)))
    return texts


async def _one_by_one(
    pages: Mapping[str, Fetched], urls: Sequence[str], error: PagesUnreadable
) -> dict[str, str]:
    """The pages each by itself, as one that cannot be read takes the others with it."""
    if len(urls) == 1:
        return {urls[0]: f"It could not be read: {error}."}
    return {url: text for each in urls for url, text in (await _texts({each: pages[each]})).items()}


def _part(url: str, page: Fetched | None, text: str, room: int) -> str:
    lines = [f"== {url}"]
    if page is not None and page.url != url:
        lines.append(f"(It redirects to {page.url})")
    lines.append(text.strip()[:room] or "It has no text.")
    if len(text) > room or (page is not None and page.is_cut):
        lines.append("[the rest of it is left out]")
    return "\n".join(lines)
