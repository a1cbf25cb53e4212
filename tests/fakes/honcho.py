"""Honcho's published API (v3) for tests, as far as Hermes uses it, strict about its requests."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from tests.fakes.http_server import cut

KEY = "honcho-key-for-tests"
NOW = "2026-01-02T03:04:05Z"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,512}")
_PATH = re.compile(r"/v3/workspaces(?:/(?P<workspace>[^/]+)(?P<rest>/.*)?)?")


class Refused(Exception):
    """The request is wrong."""


@dataclass(slots=True)
class FakeHoncho:
    """One server; `trouble` is a status, or cut, hang or garbage, and `knows` a representation."""

    knows: str = ""
    card: list[str] = field(default_factory=list[str])
    answer: str = "The user likes tea."
    trouble: str = ""
    workspaces: set[str] = field(default_factory=set[str])
    peers: set[str] = field(default_factory=set[str])
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    conclusions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dreams: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[str] = field(default_factory=list[str])
    """The method and path of each request, and its query."""
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        self.asked.append(f"{request.method} {request.path_qs}")
        match self.trouble:
            case "cut":
                return cut(request)
            case "hang":
                while request.transport is not None:  # noqa: ASYNC110 - until the client hangs up
                    await asyncio.sleep(0.05)
                return web.Response()
            case "garbage":
                return web.Response(text="<html>", content_type="text/html")
            case status if status:
                return web.json_response({"detail": "out of order"}, status=int(status))
            case _:
                pass
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": "bad key"}, status=401)
        found = _PATH.fullmatch(request.path)
        if found is None:
            return web.json_response({"detail": "not found"}, status=404)
        body = json.loads(await request.read() or b"null")
        try:
            told = self._told(request, found["workspace"], found["rest"] or "", body)
        except Refused as refused:
            return web.json_response({"detail": str(refused)}, status=422)
        return web.json_response(told)

    def of(self, peer: str) -> list[str]:
        """What a peer has said, in order."""
        return [each["content"] for each in self.messages if each["peer_id"] == peer]

    def _told(self, request: web.Request, workspace: str | None, rest: str, body: Any) -> Any:
        if workspace is None:
            self.workspaces.add(_checked(body["id"]))
            return {"id": body["id"], "created_at": NOW, "metadata": {}, "configuration": {}}
        if workspace not in self.workspaces:
            raise Refused("no such workspace")
        match rest.strip("/").split("/"):
            case ["peers", peer, *what]:
                return self._of_peer(peer, what, request.query, body)
            case ["sessions", session, "messages"]:
                return [self._add(workspace, session, each) for each in _batch(body["messages"])]
            case names:
                return self._of_workspace("/".join(names), workspace, body)

    def _of_peer(self, peer: str, what: list[str], query: Any, body: Any) -> Any:
        match what:
            case ["context"]:
                return self._context(peer, query)
            case ["card"]:
                return {"peer_card": self.card}
            case ["chat"]:
                self._known(peer, body["target"])
                return {"content": self.answer}
            case _:
                raise Refused("unknown route")

    def _of_workspace(self, route: str, workspace: str, body: Any) -> Any:
        match route:
            case "peers":
                self.peers.add(_checked(body["id"]))
                told: Any = {"id": body["id"], "workspace_id": workspace, "created_at": NOW}
            case "sessions":
                self._known(*body["peers"])
                self.sessions[_checked(body["id"])] = body["peers"]
                told = _session(body["id"], workspace)
            case "conclusions":
                told = [self._conclude(each) for each in _batch(body["conclusions"])]
            case "conclusions/query":
                words = body["query"].lower().split()
                told = [c for c in self.conclusions if any(w in c["content"] for w in words)]
            case "conclusions/list":
                items = self.conclusions
                told = {"items": items, "page": 1, "size": 100, "total": len(items), "pages": 1}
            case "schedule_dream":
                self._known(body["observer"], body["observed"])
                self.dreams.append(body)
                told = None
            case _:
                raise Refused(f"unknown route {route}")
        return told

    def _known(self, *peers: str) -> None:
        if unknown := set(peers) - self.peers:
            raise Refused(f"no such peers: {unknown}")

    def _context(self, peer: str, query: Any) -> Any:
        self._known(peer, query["target"])
        about = {"peer_id": peer, "target_id": query["target"]}
        return {**about, "representation": self.knows, "peer_card": self.card or None}

    def _add(self, workspace: str, session: str, said: dict[str, Any]) -> dict[str, Any]:
        if said["peer_id"] not in self.sessions[session]:
            raise Refused("the peer is not in the session")
        if not 1 <= len(said["content"]) <= 25_000:
            raise Refused("the message is too long or empty")
        self.messages.append({**said, "session_id": session})
        made = {"id": f"m{next(self.numbers)}", "workspace_id": workspace, "token_count": 1}
        return {"created_at": NOW, **said, **made, "session_id": session}

    def _conclude(self, given: dict[str, Any]) -> dict[str, Any]:
        self._known(given["observer_id"], given["observed_id"])
        made = {**given, "id": f"c{next(self.numbers)}", "created_at": NOW}
        self.conclusions.append(made)
        return made


def _batch(given: list[Any]) -> list[Any]:
    if not 1 <= len(given) <= 100:
        raise Refused("1 to 100 at once")
    return given


def _checked(name: str) -> str:
    if not _ID.fullmatch(name):
        raise Refused(f"{name} is no id")
    return name


def _session(name: str, workspace: str) -> dict[str, Any]:
    return {"id": name, "is_active": True, "workspace_id": workspace, "created_at": NOW}
