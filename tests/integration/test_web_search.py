"""Searching the web: the engines as they answer, and what is made of it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent_service.config.tools import SearchConfig
from agent_service.tools.web.engines import Search, SearchFailed, SearchResult
from tests.fakes.search import BRAVE_KEY, EXA_KEY, FIRECRAWL_KEY, TAVILY_KEY, SearchApis
from tests.fakes.web import Site, site

HITS = [
    {"title": f"Otter {number}", "url": f"https://otters.example/{number}", "text": "river otters"}
    for number in range(1, 8)
]


@pytest.fixture
def apis() -> SearchApis:
    """What the APIs know."""
    return SearchApis(hits=list(HITS))


@pytest.fixture
async def server(apis: SearchApis) -> AsyncIterator[Site]:
    """Where the APIs are."""
    async with site(apis.handle) as running:
        yield running


def config(server: Site, *engines: str, **more: Any) -> SearchConfig:
    """Settings with the keys of some engines."""
    url = f"http://127.0.0.1:{server.port}"
    keys = {"brave": BRAVE_KEY, "tavily": TAVILY_KEY, "exa": EXA_KEY, "firecrawl": FIRECRAWL_KEY}
    values: dict[str, Any] = {f"{name}_base_url": url for name in keys}
    values |= {f"{name}_api_key": keys[name] for name in engines}
    return SearchConfig(**values, **more)


async def test_brave_is_asked_as_it_wants_it(server: Site) -> None:
    found = await Search(config(server, "brave"))("river otters", 2)
    assert found == [
        SearchResult("Otter 1", "https://otters.example/1", "river otters & more"),
        SearchResult("Otter 2", "https://otters.example/2", "river otters & more"),
    ]
    assert server.seen[0].query["q"] == "river otters"


@pytest.mark.parametrize("engine", ["tavily", "exa", "firecrawl"])
async def test_others_are_asked_as_they_want_it(server: Site, engine: str) -> None:
    found = await Search(config(server, engine))("river otters", 3)
    assert [each.url for each in found] == [f"https://otters.example/{n}" for n in (1, 2, 3)]
    assert (found[0].title, found[0].snippet) == ("Otter 1", "river otters")


async def test_a_searxng_of_ones_own_is_asked_for_json(server: Site) -> None:
    found = await Search(SearchConfig(searxng_url=f"http://127.0.0.1:{server.port}"))("a & b", 3)
    assert [each.url for each in found] == [f"https://otters.example/{n}" for n in (1, 2, 3)]
    assert (found[0].title, found[0].snippet) == ("Otter 1", "river otters")
    assert server.seen[0].query["q"] == "a & b"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, "", "rejected the key"),
        (429, "", "its rate limit or quota"),
        (500, "", "status 500"),
        (302, "", "status 302"),
        (200, "<html>", "not JSON"),
        (200, "[" * 100_000, "not JSON"),
    ],
)
async def test_what_an_engine_does_wrong_is_told_without_its_key(
    apis: SearchApis, server: Site, status: int, body: str, why: str
) -> None:
    apis.status, apis.body = status, body
    with pytest.raises(SearchFailed, match=why) as failed:
        await Search(config(server, "brave"))("otters", 1)
    assert BRAVE_KEY not in str(failed.value)


@pytest.mark.parametrize("body", ["{}", '{"web": 3}', '{"web": {"results": [1, {"url": 2}]}}'])
async def test_answers_of_another_shape_are_no_results(
    apis: SearchApis, server: Site, body: str
) -> None:
    apis.body = body
    assert await Search(config(server, "brave"))("otters", 1) == []


async def test_the_next_engine_is_asked_where_one_fails(server: Site) -> None:
    both = config(server, "brave", tavily_api_key="wrong", provider="tavily")
    found = await Search(both)("otters", 1)
    assert found[0].snippet == "river otters & more"
    assert [request.method for request in server.seen] == ["POST", "GET"]


def test_without_settings_there_is_nothing_to_ask() -> None:
    assert not Search(SearchConfig()).is_possible
