"""A Mattermost server for tests: its API and its stream of events, which can be unreliable.

What people see is in `chats`; `say` and `rewrite` are what people do.
"""

import asyncio
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from aiohttp import web

from tests.fakes.http_server import bind, cut, serving
from tests.fakes.mattermost_rules import (
    BLANK,
    BOT,
    CHANNEL,
    DEDUPLICATION_S,
    MAX_CHARS,
    REFUSALS,
    TOKEN,
    USERS,
    Refused,
)
from tests.fakes.telegram_faults import Faults

Answer = Callable[..., Awaitable[Any]]


class FakeMattermost:
    """The server's state: one bot, a direct chat with the id 5, and a channel."""

    def __init__(self, url: str) -> None:
        self.faults = Faults()
        self.url, self.token, self.users = url, TOKEN, dict(USERS)
        self.channels = {"5": "D", CHANNEL: "O"}
        self.posts: dict[str, dict[str, Any]] = {}
        self.versions: defaultdict[str, list[str]] = defaultdict(list)
        self.files: dict[str, tuple[str, bytes]] = {}
        self.typed, self.calls, self.closed = Counter[str](), Counter[str](), set[str]()
        self.sockets: dict[web.WebSocketResponse, int] = {}
        """The open streams, with how many events each was told."""
        self.lost, self.is_deaf = 0, False
        """How many of the next events are left out of the streams; deaf leaves out all."""
        self._pending: dict[str, tuple[float, str]] = {}
        self._numbers, self._time = count(1), 0
        self._routes: list[tuple[str, str, Answer]] = [
            ("GET", "/users/(me|[^/]+)", self._user),
            ("GET", "/users/me/channels", self._my_channels),
            ("POST", "/users/me/typing", self._type),
            ("GET", "/channels/([^/]+)", self._channel),
            ("GET", "/channels/([^/]+)/posts", self._since),
            ("POST", "/channels/direct", self._open_direct),
            ("POST", "/posts", self._create),
            ("GET", "/posts/([^/]+)", self._post),
            ("PUT", "/posts/([^/]+)/patch", self._patch),
            ("POST", "/files", self._upload),
        ]

    async def say(self, channel_id: str, text: str, user_id: str = "7", **more: Any) -> str:
        """Somebody writes; returns the post's id."""
        post = self._write(channel_id, user_id, text, **more)
        await self.tell("posted", {"post": json.dumps(post)})
        return post["id"]

    async def rewrite(self, post_id: str, text: str) -> None:
        """Somebody edits a post."""
        (post := self.posts[post_id]).update(message=text, edit_at=self._now())
        await self.tell("post_edited", {"post": json.dumps(post)})

    async def react(self, post_id: str, emoji_name: str, user_id: str = "7") -> None:
        """Somebody puts an emoji on a post."""
        reaction = {"post_id": post_id, "user_id": user_id, "emoji_name": emoji_name}
        whole = json.dumps({**reaction, "create_at": self._now()})
        await self.tell("reaction_added", {"reaction": whole})

    async def tell(self, event: str, data: Any) -> None:
        """Tell all streams an event."""
        for stream, told in list(self.sockets.items()):
            self.sockets[stream] = told + 1
            if self.lost:
                self.lost -= 1
            elif not stream.closed and not self.is_deaf:
                with suppress(ConnectionError):
                    await stream.send_json({"event": event, "data": data, "seq": told})

    def texts(self, channel_id: str) -> list[str]:
        return [post["message"] for post in self.shown(channel_id)]

    def shown(self, channel_id: str) -> list[dict[str, Any]]:
        place = channel_id, BOT
        return [p for p in self.posts.values() if (p["channel_id"], p["user_id"]) == place]

    def _write(self, channel_id: str, user_id: str, text: str, **more: Any) -> dict[str, Any]:
        age_s = more.pop("age_s", 0)
        post: dict[str, Any] = {
            "id": f"post{next(self._numbers):022}",
            "create_at": self._now() - age_s * 1000,
            "user_id": user_id,
            "channel_id": channel_id,
            "message": text,
            **BLANK,
            **more,
        }
        self.posts[post["id"]] = post
        return post

    def _now(self) -> int:
        """The time in milliseconds, which no two posts share."""
        self._time = max(self._time + 1, int(time.time() * 1000))
        return self._time

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or fail to."""
        path = request.path.removeprefix("/api/v4")
        if path == "/websocket":
            return await self._stream(request)
        if found := re.fullmatch("/files/([^/]+)", path):
            return web.Response(body=self.files[found[1]][1])
        for method, pattern, answer in reversed(self._routes):
            if method == request.method and (found := re.fullmatch(pattern, path)):
                return await self._call(request, answer, found)
        raise AssertionError(f"Mattermost has no {request.method} {path}")

    async def _call(
        self, request: web.Request, answer: Answer, found: re.Match[str]
    ) -> web.StreamResponse:
        name = answer.__name__.lstrip("_")
        fault = self.faults.next(name)
        if fault == "drop_before":
            return cut(request)
        try:
            self._check(request, fault)
            result = await answer(request, *found.groups())
        except Refused as error:
            return web.json_response(error.body, status=error.status, headers=error.headers)
        self.calls[name] += 1
        return cut(request) if fault == "drop_after" else web.json_response(result)

    def _check(self, request: web.Request, fault: str) -> None:
        if request.headers["Authorization"] != f"Bearer {self.token}":
            raise Refused(401, "api.context.session_expired.app_error")
        if fault in REFUSALS:
            raise REFUSALS[fault]

    async def _stream(self, request: web.Request) -> web.WebSocketResponse:
        stream = web.WebSocketResponse()
        await stream.prepare(request)
        if request.headers["Authorization"] != f"Bearer {self.token}":
            await stream.close()
            return stream
        self.sockets[stream] = 1
        await stream.send_json({"event": "hello", "data": {"server_version": "10"}, "seq": 0})
        async for message in stream:
            asked: dict[str, Any] = json.loads(message.data)
            if asked["action"] == "ping" and not self.is_deaf:
                data = {"text": "pong"}
                await stream.send_json({"status": "OK", "data": data, "seq_reply": asked["seq"]})
        del self.sockets[stream]
        return stream

    async def _user(self, _: web.Request, user_id: str) -> Any:
        return self._found(self.users, BOT if user_id == "me" else user_id)

    async def _my_channels(self, _: web.Request) -> Any:
        return [self._about(channel_id) for channel_id in self.channels]

    async def _channel(self, _: web.Request, channel_id: str) -> Any:
        self._found(self.channels, channel_id)
        return self._about(channel_id)

    async def _open_direct(self, request: web.Request) -> Any:
        self._found(self.users, (await request.json())[1])
        return self._about("5")

    def _about(self, channel_id: str) -> dict[str, Any]:
        times = [p["create_at"] for p in self.posts.values() if p["channel_id"] == channel_id]
        about = {"type": self.channels[channel_id], "name": f"name-of-{channel_id}"}
        return {"id": channel_id, **about, "last_post_at": max(times, default=0)}

    async def _since(self, request: web.Request, channel_id: str) -> Any:
        if channel_id in self.closed:
            raise REFUSALS["forbidden"]
        [(name, since)] = request.query.items()
        assert name == "since"
        posts = [p for p in self.posts.values() if p["channel_id"] == channel_id]
        found = {p["id"]: p for p in posts if max(p["create_at"], p["edit_at"]) > int(since)}
        return {"order": list(reversed(found)), "posts": found}

    async def _post(self, _: web.Request, post_id: str) -> Any:
        return self._found(self.posts, post_id)

    async def _create(self, request: web.Request) -> Any:
        asked = await request.json()
        if asked["channel_id"] not in self.channels:
            raise REFUSALS["forbidden"]
        root = self.posts.get(asked["root_id"])
        if asked["root_id"] and (root is None or root["delete_at"] or root["root_id"]):
            raise Refused(400, "api.post.create_post.root_id.app_error")
        if len(asked["message"]) > MAX_CHARS:
            raise Refused(400, "model.post.is_valid.message_length.app_error")
        seen_at, known = self._pending.get(asked["pending_post_id"], (0.0, ""))
        if known and time.monotonic() - seen_at < DEDUPLICATION_S:
            return self.posts[known]
        files = [{"id": each, "name": self.files[each][0]} for each in asked["file_ids"]]
        more = {"root_id": asked["root_id"], "metadata": {"files": files}}
        post = self._write(asked["channel_id"], BOT, asked["message"], **more)
        self._pending[asked["pending_post_id"]] = time.monotonic(), post["id"]
        await self.tell("posted", {"post": json.dumps(post)})
        return post

    async def _patch(self, request: web.Request, post_id: str) -> Any:
        post = self._found(self.posts, post_id)
        if post["user_id"] != BOT:
            raise REFUSALS["forbidden"]
        post |= {"message": (await request.json())["message"], "edit_at": self._now()}
        await self.tell("post_edited", {"post": json.dumps(post)})
        return post

    async def _upload(self, request: web.Request) -> Any:
        form = await request.post()
        file = form["files"]
        assert isinstance(file, web.FileField)
        assert form["channel_id"] in self.channels
        file_id = f"file{next(self._numbers)}"
        self.files[file_id] = file.filename, await asyncio.to_thread(file.file.read)
        return {"file_infos": [{"id": file_id}]}

    async def _type(self, request: web.Request) -> Any:
        self.typed[(await request.json())["channel_id"]] += 1
        return {"status": "OK"}

    def _found(self, things: dict[str, Any], thing_id: str) -> Any:
        if thing_id not in things:
            raise Refused(404, "store.sql.get.app_error")
        return things[thing_id]


@asynccontextmanager
async def fake_mattermost() -> AsyncGenerator[FakeMattermost]:
    """A running server."""
    listener, url = bind()
    mattermost = FakeMattermost(url)
    async with serving(listener, mattermost.serve):
        yield mattermost
