"""The search APIs of Brave, Tavily, Exa, Firecrawl and SearXNG, strict about their requests."""

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

BRAVE_KEY, TAVILY_KEY = "brave-key-for-tests", "tavily-key-for-tests"
EXA_KEY, FIRECRAWL_KEY = "exa-key-for-tests", "firecrawl-key-for-tests"


@dataclass(slots=True)
class SearchApis:
    """All at once; `hits` is what they know, `status` what they answer with."""

    hits: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    status: int = 200
    body: str = ""
    """What is answered in place of results."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        if self.status != 200 or self.body:
            return web.Response(status=self.status, text=self.body)
        if request.path == "/res/v1/web/search" and request.method == "GET":
            return self._brave(request)
        if request.path == "/search" and request.method == "GET":
            return self._searxng(request)
        if request.path == "/search" and request.method == "POST":
            asked = await request.json()
            return (self._exa if "numResults" in asked else self._tavily)(request, asked)
        if request.path == "/v2/search" and request.method == "POST":
            return self._firecrawl(request, await request.json())
        return web.Response(status=404)

    def _brave(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Subscription-Token") != BRAVE_KEY:
            return web.Response(status=401)
        if not 1 <= int(request.query["count"]) <= 20 or not request.query["q"]:
            return web.Response(status=422)
        found = self.hits[: int(request.query["count"])]
        results = [
            {
                "type": "search_result",
                "title": hit["title"],
                "url": hit["url"],
                "description": f"<strong>{hit['text']}</strong> &amp; more",
            }
            for hit in found
        ]
        return _json({"type": "search", "web": {"type": "search", "results": results}})

    def _searxng(self, request: web.Request) -> web.Response:
        if request.query.get("format") != "json" or not request.query.get("q"):
            return web.Response(status=403)
        results = [
            {"title": hit["title"], "url": hit["url"], "content": hit["text"], "engine": "index"}
            for hit in self.hits
        ]
        return _json({"query": request.query["q"], "results": results, "answers": []})

    def _tavily(self, request: web.Request, asked: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TAVILY_KEY}":
            return web.Response(status=401)
        if not 0 <= asked["max_results"] <= 20 or not asked["query"]:
            return web.Response(status=400)
        results = [
            {"title": hit["title"], "url": hit["url"], "content": hit["text"], "score": 0.9}
            for hit in self.hits[: asked["max_results"]]
        ]
        return _json({"query": asked["query"], "results": results, "response_time": 0.1})

    def _exa(self, request: web.Request, asked: dict[str, Any]) -> web.Response:
        if request.headers.get("x-api-key") != EXA_KEY:
            return web.Response(status=401)
        most = asked["contents"]["text"]["maxCharacters"]
        results = [
            {"id": hit["url"], "title": hit["title"], "url": hit["url"], "text": hit["text"][:most]}
            for hit in self.hits[: asked["numResults"]]
        ]
        return _json({"requestId": "1", "results": results, "costDollars": {"total": 0.01}})

    def _firecrawl(self, request: web.Request, asked: dict[str, Any]) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {FIRECRAWL_KEY}":
            return web.Response(status=401)
        found = [
            {"title": hit["title"], "url": hit["url"], "description": hit["text"], "position": n}
            for n, hit in enumerate(self.hits[: asked["limit"]], 1)
        ]
        return _json({"success": True, "data": {"web": found}, "creditsUsed": 2})


def _json(value: object) -> web.Response:
    return web.Response(text=json.dumps(value), content_type="application/json")
