"""Searches the web with the configured providers."""

import html
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from msgspec import Struct

from agent_service.config.tools import FetchConfig, SearchConfig
from agent_service.security.fetch.destinations import Destinations, Resolve, system_addresses
from agent_service.security.fetch.urls import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchLimits,
    FetchRefused,
)
from services.validation import json_object, object_of

SETTINGS = ("BRAVE_API_KEY", "TAVILY_API_KEY", "EXA_API_KEY", "FIRECRAWL_API_KEY", "SEARXNG_URL")
"""Web search needs one of these."""

_LIMITS = FetchLimits(size_bytes=2_000_000, total_s=20.0, redirects=0)
_MARKUP = re.compile(r"<[^<>]{0,200}>")
_SNIPPET_CHARACTERS = 1_000


class SearchFailed(Exception):
    """No search engine returned results; the message says why, without secrets."""


class SearchResult(Struct, frozen=True):
    """One result."""

    title: str
    url: str
    snippet: str


Ask = Callable[[Fetcher, SearchConfig, str, int], Awaitable[Fetched]]


async def _brave(fetcher: Fetcher, config: SearchConfig, query: str, most: int) -> Fetched:
    headers = {
        "X-Subscription-Token": config.brave_api_key.get_secret_value(),
        "Accept": "application/json",
    }
    url, params = f"{config.brave_base_url}/res/v1/web/search", {"q": query, "count": str(most)}
    return await fetcher.get(url, _LIMITS, headers, params)


async def _tavily(fetcher: Fetcher, config: SearchConfig, query: str, most: int) -> Fetched:
    headers = {"Authorization": f"Bearer {config.tavily_api_key.get_secret_value()}"}
    payload = {"query": query, "max_results": most}
    return await fetcher.post(f"{config.tavily_base_url}/search", payload, _LIMITS, headers)


async def _exa(fetcher: Fetcher, config: SearchConfig, query: str, most: int) -> Fetched:
    headers = {"x-api-key": config.exa_api_key.get_secret_value()}
    contents = {"text": {"maxCharacters": _SNIPPET_CHARACTERS}}
    payload = {"query": query, "numResults": most, "contents": contents}
    return await fetcher.post(f"{config.exa_base_url}/search", payload, _LIMITS, headers)


async def _firecrawl(fetcher: Fetcher, config: SearchConfig, query: str, most: int) -> Fetched:
    headers = {"Authorization": f"Bearer {config.firecrawl_api_key.get_secret_value()}"}
    payload = {"query": query, "limit": most}
    return await fetcher.post(f"{config.firecrawl_base_url}/v2/search", payload, _LIMITS, headers)


async def _searxng(fetcher: Fetcher, config: SearchConfig, query: str, _most: int) -> Fetched:
    url = f"{config.searxng_url}/search?q={quote(query)}&format=json"
    answer = await fetcher.get(url, _LIMITS)
    if answer.status == 403:
        raise SearchFailed("it does not serve JSON; add json to search.formats in its settings")
    return answer


class Search:
    """The search engines of a deployment, in order of preference."""

    def __init__(self, config: SearchConfig, resolve: Resolve = system_addresses) -> None:
        # The owner configures these URLs, so private networks and unusual ports are allowed.
        named = [config.brave_base_url, config.tavily_base_url, config.exa_base_url]
        trusted = [*filter(None, [*named, config.firecrawl_base_url, config.searxng_url])]
        self._fetcher = Fetcher(Destinations(trusted=trusted, resolve=resolve))
        self._config = config
        engines: list[tuple[str, bool, Ask]] = [
            ("brave", bool(config.brave_api_key.get_secret_value()), _brave),
            ("tavily", bool(config.tavily_api_key.get_secret_value()), _tavily),
            ("exa", bool(config.exa_api_key.get_secret_value()), _exa),
            ("firecrawl", bool(config.firecrawl_api_key.get_secret_value()), _firecrawl),
            ("searxng", bool(config.searxng_url), _searxng),
        ]
        engines.sort(key=lambda engine: engine[0] != config.provider)
        self._engines = [(name, ask) for name, is_set, ask in engines if is_set]

    @property
    def is_possible(self) -> bool:
        return bool(self._engines)

    async def __call__(self, query: str, limit: int) -> Sequence[SearchResult]:
        """Results of the first engine that answers; SearchFailed if none does."""
        failures: list[str] = []
        for name, ask in self._engines:
            try:
                answer = await ask(self._fetcher, self._config, query, limit)
                return _results(_document(answer))[:limit]
            except (SearchFailed, FetchRefused, FetchFailed) as error:
                failures.append(f"{name}: {error}")
        raise SearchFailed("The search failed. " + "; ".join(failures))


def _document(answer: Fetched) -> Mapping[str, Any]:
    if answer.status in {401, 403}:
        raise SearchFailed("it rejected the key")
    if answer.status in {402, 429, 432, 433}:
        raise SearchFailed("its rate limit or quota is used up")
    if answer.status != 200:
        raise SearchFailed(f"it answered with status {answer.status}")
    document = json_object(answer.data)
    if document is None:
        raise SearchFailed("its answer is not JSON")
    return document


def _results(document: Mapping[str, Any]) -> Sequence[SearchResult]:
    """Results, best first; each engine nests them and calls their text in its own way."""
    of_firecrawl = object_of(document.get("data")).get("web")
    results = object_of(document.get("web", document)).get("results", of_firecrawl)
    listed = cast("list[object]", results) if isinstance(results, list) else []
    return [
        SearchResult(
            _plain(entry.get("title")),
            url,
            _plain(next(filter(None, map(entry.get, ("content", "description", "text"))), "")),
        )
        for entry in map(object_of, listed)
        if (url := entry.get("url")) and isinstance(url, str)
    ]


def _plain(value: object) -> str:
    """A text on one line, without the markup that engines put around matches."""
    text = html.unescape(_MARKUP.sub("", value)) if isinstance(value, str) else ""
    return " ".join(text.split())[:_SNIPPET_CHARACTERS]


class Web(Struct, frozen=True):
    """What the web tools use."""

    fetcher: Fetcher
    search: Search


def configured_web(fetch: FetchConfig, search: SearchConfig) -> Web:
    """Web access according to the settings."""
    destinations = Destinations(private=fetch.private, ports=fetch.allow_ports)
    return Web(Fetcher(destinations), Search(search))
