"""A Slack workspace for tests: the Web API, Socket Mode, and what people do and see.

What the bot has shown is in `chats`; `say`, `press`, `command` are what people do. Each becomes an
event, which is sent again until it is acknowledged.
"""

import asyncio
import hmac
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from gateway_service.platforms.slack.config import SlackConfig
from services.lifecycle import Workers
from tests.fakes.http_server import bind, cut, serving
from tests.fakes.slack_api import ME, NAMES, TEAM, WebApi
from tests.fakes.slack_rules import Refused
from tests.fakes.telegram_faults import Faults

TOKEN, APP_TOKEN, SECRET = "xoxb-17-42-fake", "xapp-1-A1-2-fake", "signing-secret"


@dataclass(slots=True)
class Pending:
    """An event that is not acknowledged."""

    kind: str
    payload: dict[str, Any]
    attempts: int = 0


class FakeSlack(WebApi):
    """The workspace."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.patience_s = 3.0
        self.opened = 0
        self._pending: dict[str, Pending] = {}
        self._sockets: list[web.WebSocketResponse] = []
        self._changed = asyncio.Condition()
        self.workers = Workers()

    async def say(
        self, channel: str, text: str, user: str = "U7", *, is_heard: bool = True, **more: Any
    ) -> str:
        """Somebody writes; return the message's id. What is not heard is in the history only."""
        ts = self.time()
        message = {"type": "message", "user": user, "text": text, "ts": ts, "team": TEAM, **more}
        self.history[channel].append(message)
        if is_heard:
            kind = "channel" if channel.startswith("C") else "im"
            event = {**message, "channel": channel, "channel_type": kind, "event_ts": ts}
            await self.event(event)
        return ts

    async def event(self, event: dict[str, Any]) -> None:
        """Something happens that the app has subscribed to."""
        await self._add("events_api", callback(event, f"Ev{next(self.numbers)}"))

    async def press(
        self, channel: str, ts: str, value: str, user: str = "U7", thread: str = ""
    ) -> None:
        """Somebody presses a button."""
        container = {"type": "message", "message_ts": ts, "channel_id": channel}
        await self._add(
            "interactive",
            {
                "type": "block_actions",
                "user": {"id": user, "username": NAMES[user], "team_id": TEAM},
                "container": {**container, **({"thread_ts": thread} if thread else {})},
                "channel": {"id": channel, "name": "directmessage"},
                "trigger_id": f"trigger-{next(self.numbers)}",
                "actions": [{"type": "button", "value": value, "action_ts": self.time()}],
            },
        )

    async def command(self, channel: str, text: str, name: str = "/hermes") -> None:
        """Somebody uses a slash command."""
        number = next(self.numbers)
        about = {"channel_id": channel, "user_id": "U7", "user_name": "ada", "team_id": TEAM}
        payload = {"command": name, "text": text, "trigger_id": f"{number}.1.a", **about}
        await self._add("slash_commands", payload)

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Slack asks for a new connection."""
        for socket in list(self._sockets):
            await socket.send_json({"type": "disconnect", "reason": reason})

    async def until(self, condition: Any, patience_s: float = 30.0) -> None:
        """Return once what was done to the server makes the condition true."""
        try:
            async with asyncio.timeout(patience_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise AssertionError(f"so far: {dict(self.chats)}, {self.calls}") from None

    def texts(self, channel: str) -> list[str]:
        return [shown.text for shown in self.chats[channel].values()]

    @property
    def unacknowledged(self) -> int:
        return len(self._pending)

    async def _add(self, kind: str, payload: dict[str, Any]) -> None:
        self._pending[f"env-{next(self.numbers)}"] = Pending(kind, payload)
        await self._deliver()

    async def _deliver(self, *, again: bool = False) -> None:
        """Send what was not sent yet, or everything that is not acknowledged, in a new envelope."""
        async with self._changed:
            for earlier_id, each in list(self._pending.items()):
                if not self._sockets or (each.attempts and not again):
                    continue
                envelope_id = f"env-{next(self.numbers)}"
                self._pending[envelope_id] = self._pending.pop(earlier_id)
                frame = {"type": each.kind, "envelope_id": envelope_id, "payload": each.payload}
                frame |= {"accepts_response_payload": each.kind != "events_api"}
                await self._sockets[-1].send_json(frame | {"retry_attempt": each.attempts})
                each.attempts += 1
            self._changed.notify_all()

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.opened += 1
        await socket.send_json({"type": "hello", "num_connections": len(self._sockets) + 1})
        self._sockets.append(socket)
        await self._deliver(again=True)
        again = self.workers.start("redelivery", self._insist(socket))
        try:
            async for frame in socket:
                assert frame.type is WSMsgType.TEXT
                async with self._changed:
                    self._pending.pop(json.loads(frame.data)["envelope_id"], None)
                    self._changed.notify_all()
        finally:
            again.cancel()
            self._sockets.remove(socket)
        return socket

    async def _insist(self, socket: web.WebSocketResponse) -> None:
        while not socket.closed:
            await asyncio.sleep(self.patience_s)
            await self._deliver(again=True)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one call, or fail to."""
        method = request.match_info["method"]
        fields = dict(request.query)
        if request.content_type == "application/json":
            fields |= await request.json()
        else:
            fields |= {name: str(each) for name, each in (await request.post()).items()}
        fault = self.faults.next(method)
        if fault == "drop_before":
            return cut(request)
        if fault == "limited":
            headers = {"Retry-After": "1"}
            return web.json_response(Refused("ratelimited").body, status=429, headers=headers)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token != (APP_TOKEN if method == "apps.connections.open" else TOKEN):
            fault = "invalid_auth"
        try:
            if fault not in ("", "drop_after"):
                return web.json_response(Refused(fault, needed="some:scope").body)
            result = self.answer(method, fields)
        except Refused as error:
            return web.json_response(error.body)
        async with self._changed:
            self.calls[method] += 1
            self._changed.notify_all()
        return cut(request) if fault == "drop_after" else web.json_response(result)

    async def file(self, request: web.Request) -> web.Response:
        file_id = request.match_info["id"]
        if request.method == "POST":
            self.files[file_id] = await request.read()
            return web.Response(text="OK")
        if file_id == "signin" or request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPFound("/signin")
        return web.Response(body=self.files[file_id])


def callback(event: dict[str, Any], event_id: str = "Ev1") -> dict[str, Any]:
    """What the Events API wraps an event in."""
    return {
        "type": "event_callback",
        "event_id": event_id,
        "event": event,
        "authorizations": [{"team_id": TEAM, "user_id": ME, "is_bot": True}],
    }


def signed(body: bytes, at: int | None = None, secret: str = SECRET) -> dict[str, str]:
    """The headers with which Slack signs a request."""
    sent_at = str(int(time.time()) if at is None else at)
    digest = hmac.new(secret.encode(), f"v0:{sent_at}:".encode() + body, "sha256").hexdigest()
    return {"x-slack-request-timestamp": sent_at, "x-slack-signature": f"v0={digest}"}


def config_of(slack: FakeSlack, **more: Any) -> SlackConfig:
    """The settings of the app in a workspace."""
    tokens = {"token": TOKEN, "app_token": APP_TOKEN, "base_url": slack.url}
    return SlackConfig.model_validate({**tokens, **more})


@asynccontextmanager
async def fake_slack(host: str = "127.0.0.1") -> AsyncGenerator[FakeSlack]:
    """A running workspace; `url` is the base of its Web API."""
    slack = FakeSlack()
    app = web.Application()
    app.router.add_post("/api/{method}", slack.serve)
    app.router.add_get("/api/{method}", slack.serve)
    app.router.add_get("/link", slack.socket)
    app.router.add_route("*", "/files/{id}", slack.file)
    listener, url = bind(host)
    slack.url = f"{url}/api/"
    async with slack.workers, serving(listener, app):
        yield slack
