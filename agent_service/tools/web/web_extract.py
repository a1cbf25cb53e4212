"""The `web_extract` tool: the main text of web pages as Markdown."""

import base64
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field

from agent_service.security.fetch.charsets import encoding_of
from agent_service.security.fetch.urls import Fetched, Fetcher, FetchFailed, FetchRefused
from agent_service.security.scripts import ScriptFailed, answer_of
from agent_service.tools.base import Effect, ToolArguments, ToolContext, ToolResult, UsualTool
from services.lifecycle import all_of

MAX_URLS = 5
LIMIT_S = 30.0
"""Time limit for all pages together."""
MAX_CHARACTERS = 80_000
"""Limit for all pages together."""

WORKER = Path(__file__).with_name("page_worker.py")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = frozenset(
    {
        "",
        "application/json",
        "application/javascript",
        "application/ld+json",
        "application/rss+xml",
        "application/atom+xml",
        "application/xml",
        "application/yaml",
    }
)


def is_installed() -> bool:
    """Whether the HTML reader is installed."""
    return find_spec("trafilatura") is not None


class WebExtractArguments(ToolArguments):
    """Reads web pages and returns their main text as Markdown.

    It reads only public pages on the usual ports. Long pages are cut, and files without text are
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
        if not _is_html(page) and not _is_text(page):
            return f"This is a file of type {page.content_type[:80]} without text to show."
        return page


def _is_html(page: Fetched) -> bool:
    is_markup = page.content_type == "" and page.data.lstrip()[:1] == b"<"
    return page.content_type in _HTML or is_markup


def _is_text(page: Fetched) -> bool:
    return page.content_type.startswith("text/") or page.content_type in _TEXTS


async def _texts(pages: Mapping[str, Fetched]) -> dict[str, str]:
    texts = {url: page.text for url, page in pages.items() if not _is_html(page)}
    markup = [url for url in pages if url not in texts]
    if not markup:
        return texts
    asked = json.dumps([_encoded(pages[url]) for url in markup]).encode()
    try:
        read = json.loads(await answer_of(WORKER, asked, LIMIT_S))
    except ScriptFailed as error:
        if len(markup) == 1:
            return texts | {markup[0]: f"The page could not be read: {error}."}
        # One unreadable page fails the whole batch, so retry the pages one by one.
        for url in markup:
            texts |= await _texts({url: pages[url]})
        return texts
    for url, found in zip(markup, read, strict=True):
        title = found["title"] and f"# {found['title']}"
        texts[url] = "\n\n".join(filter(None, (title, found["text"])))
    return texts


def _encoded(page: Fetched) -> dict[str, str]:
    charset = encoding_of(page.data, page.charset)
    data = base64.b64encode(page.data).decode()
    return {"url": page.url, "charset": charset, "data": data}


def _part(url: str, page: Fetched | None, text: str, room: int) -> str:
    lines = [f"== {url}"]
    if page is not None and page.url != url:
        lines.append(f"(redirected to {page.url})")
    lines.append(text.strip()[:room] or "The page has no text.")
    if len(text) > room or (page is not None and page.is_cut):
        lines.append("[the rest is left out]")
    return "\n".join(lines)
