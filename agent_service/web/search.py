"""Searches the web by the providers that the settings name."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast
from urllib.parse import quote

from msgspec import Struct
from pydantic import SecretStr

from agent_service.config.tools import FetchConfig, SearchConfig
from agent_service.security.fetch.destinations import Destinations, Resolve, system_addresses
from agent_service.security.fetch.urls import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchLimits,
    FetchRefused,
)

SETTINGS = ("BRAVE_API_KEY", "TAVILY_API_KEY", "SEARXNG_URL")
"""Any one of them makes searching possible."""

_LIMITS = FetchLimits(size_bytes=2_000_000, total_s=20.0, redirects=0)
_MARKUP = re.compile(r"<[^<>]{0,200}>")
_SNIPPET_CHARACTERS = 1_000


class SearchFailed(Exception):
    """No search engine gave results; the message says why, without secrets."""


class Found(Struct, frozen=True):
    """One result."""

    title: str
    url: str
    snippet: str


class Engine(Protocol):
    """A search engine."""

    @property
    def name(self) -> str:
        """The name that the configuration uses."""
        ...

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Results, the best first; SearchFailed when it does not answer properly."""
        ...


class Brave:
    """The Brave Search API."""

    name = "brave"

    def __init__(self, fetcher: Fetcher, base_url: str, key: SecretStr) -> None:
        self._fetcher = fetcher
        self._url = f"{base_url}/res/v1/web/search"
        self._key = key

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Results, the best first."""
        headers = {
            "X-Subscription-Token": self._key.get_secret_value(),
            "Accept": "application/json",
        }
        params = {"q": query[:400], "count": str(min(limit, 20))}
        answer = await self._fetcher.get(self._url, _LIMITS, headers, params)
        web = _mapping(_document(answer).get("web"))
        return _found(web.get("results"), "description")


class Tavily:
    """Tavily."""

    name = "tavily"

    def __init__(self, fetcher: Fetcher, base_url: str, key: SecretStr) -> None:
        self._fetcher = fetcher
        self._url = f"{base_url}/search"
        self._key = key

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Results, the best first."""
        headers = {"Authorization": f"Bearer {self._key.get_secret_value()}"}
        payload = {"query": query[:400], "max_results": min(limit, 20)}
        answer = await self._fetcher.post(self._url, payload, _LIMITS, headers)
        return _found(_document(answer).get("results"), "content")


class SearXNG:
    """A SearXNG of one's own."""

    name = "searxng"

    def __init__(self, fetcher: Fetcher, base_url: str) -> None:
        self._fetcher = fetcher
        self._url = f"{base_url}/search"

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Results, the best first."""
        url = f"{self._url}?q={quote(query)}&format=json"
        answer = await self._fetcher.get(url, _LIMITS)
        if answer.status == 403:
            raise SearchFailed("it does not serve JSON: add json to search.formats of its settings")
        return _found(_document(answer).get("results"), "content")


class Search:
    """The engines of a deployment."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = tuple(engines)

    @property
    def is_possible(self) -> bool:
        """Whether there is an engine to ask."""
        return bool(self._engines)

    async def __call__(self, query: str, limit: int) -> Sequence[Found]:
        """Results of the first engine that answers; SearchFailed when none does."""
        failures: list[str] = []
        for engine in self._engines:
            try:
                return (await engine.search(query, limit))[:limit]
            except (SearchFailed, FetchRefused, FetchFailed) as error:
                failures.append(f"{engine.name}: {error}")
        raise SearchFailed("The search failed. " + "; ".join(failures))


def configured_search(config: SearchConfig, resolve: Resolve = system_addresses) -> Search:
    """The engines that the settings name, the preferred one first."""
    # Where they are is said by the owner, so it may be in a private network and on any port.
    named = [config.brave_base_url, config.tavily_base_url, config.searxng_url]
    trusted = [url for url in named if url]
    fetcher = Fetcher(Destinations(trusted=trusted, resolve=resolve))
    engines: list[Engine] = []
    if config.brave_api_key.get_secret_value():
        engines.append(Brave(fetcher, config.brave_base_url, config.brave_api_key))
    if config.tavily_api_key.get_secret_value():
        engines.append(Tavily(fetcher, config.tavily_base_url, config.tavily_api_key))
    if config.searxng_url:
        engines.append(SearXNG(fetcher, config.searxng_url))
    return Search(sorted(engines, key=lambda engine: engine.name != config.provider))


def _document(answer: Fetched) -> Mapping[str, Any]:
    if answer.status in {401, 403}:
        raise SearchFailed("it does not accept the key")
    if answer.status in {402, 429, 432, 433}:
        raise SearchFailed("its limit is reached")
    if answer.status != 200:
        raise SearchFailed(f"it answered with status {answer.status}")
    try:
        return _mapping(json.loads(answer.data))
    except (ValueError, RecursionError):
        raise SearchFailed("its answer is not JSON") from None


def _found(results: object, snippet: str) -> Sequence[Found]:
    listed = cast("list[object]", results) if isinstance(results, list) else []
    entries = [_mapping(entry) for entry in listed]
    return [
        Found(_plain(entry.get("title")), url, _plain(entry.get(snippet)))
        for entry in entries
        if (url := entry.get("url")) and isinstance(url, str)
    ]


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _plain(value: object) -> str:
    """A text on one line, without the marks that engines put on words that match."""
    text = html.unescape(_MARKUP.sub("", value)) if isinstance(value, str) else ""
    return " ".join(text.split())[:_SNIPPET_CHARACTERS]


class Web(Struct, frozen=True):
    """What the web tools use."""

    fetcher: Fetcher
    search: Search


def configured_web(fetch: FetchConfig, search: SearchConfig) -> Web:
    """The web as the settings open it."""
    destinations = Destinations(private=fetch.private, ports=fetch.allow_ports)
    return Web(Fetcher(destinations), configured_search(search))
