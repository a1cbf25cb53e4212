"""A Home Assistant for tests: its WebSocket and REST APIs with the rules of the real one.

What people see is in `shown`; `say`, `press`, `reply` and `change` are what people and things do.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.http_server import bind, cut, serving

TOKEN = "fake-long-lived-token"
PANEL = "persistent_notification"
_STATES = {"turn_on": "on", "turn_off": "off", "lock": "locked", "unlock": "unlocked"}
_EPOCH = datetime(2026, 11, 28, tzinfo=UTC)


@dataclass(slots=True)
class Notification:
    """What a phone or the panel shows."""

    message: str
    actions: Mapping[str, str]
    """Titles by the ids that come back."""
    versions: int = 1


@dataclass(slots=True)
class _Client:
    socket: web.WebSocketResponse
    last_id: int = 0
    subscribed: dict[str, int] = field(default_factory=dict[str, int])


class FakeHomeAssistant:
    """The server's state."""

    def __init__(self) -> None:
        self.url = ""
        self.is_admin = True
        self.shown: defaultdict[str, dict[str, Notification]] = defaultdict(dict)
        """By notify service and tag."""
        self.planned: list[str] = []
        """What goes wrong with the next calls: `limited`, `refused` or `lost answer`."""
        self.states: dict[str, dict[str, Any]] = {}
        self.hold: asyncio.Event | None = None
        """What services wait for after they were called."""
        self.called: list[tuple[str, list[str], Mapping[str, Any]]] = []
        """Services that were called by WebSocket, with their entities and data."""
        self.listed: dict[str, Any] = {
            f"config/{kind}_registry/list": [] for kind in ("area", "device", "entity")
        } | {"get_services": {}}
        """What commands that list something answer."""
        self.waiting: deque[Awaitable[None]] = deque()
        """What is done as soon as somebody hears of our events, which are not kept."""
        self._clients: list[_Client] = []
        self._numbers = count(1)

    async def say(self, text: str, chat: str, user_id: str | None = "7") -> None:
        """An automation, a dashboard or a voice assistant fires our event."""
        await self._fire("hermes_message", {"text": text, "chat": chat}, user_id)

    async def press(self, action: str, user_id: str = "7", **more: str) -> None:
        """Somebody chooses an action of a notification."""
        data = {"action": action, **more}
        await self._fire("mobile_app_notification_action", data, user_id)

    async def change(self, entity_id: str, state: str, /, **attributes: Any) -> None:
        """Something gets another state."""
        old = self.states.get(entity_id)
        new = {
            "entity_id": entity_id,
            "state": state,
            "attributes": attributes or (old or {}).get("attributes", {}),
            "last_changed": self._now().isoformat(),
        }
        self.states[entity_id] = new
        data = {"entity_id": entity_id, "old_state": old, "new_state": new}
        await self._fire("state_changed", data, None)

    async def cut(self) -> None:
        """Close all connections, as a restart does."""
        for client in [*self._clients]:
            await client.socket.close()

    def _now(self) -> datetime:
        return _EPOCH + timedelta(seconds=next(self._numbers))

    async def _fire(self, kind: str, data: Mapping[str, Any], user_id: str | None) -> None:
        now = self._now()
        context = {"id": f"01J{next(self._numbers):023}", "parent_id": None, "user_id": user_id}
        event = {"event_type": kind, "data": data, "origin": "LOCAL", "context": context}
        event["time_fired"] = now.isoformat()
        for client in self._clients:
            if (number := client.subscribed.get(kind)) and not client.socket.closed:
                await client.socket.send_json({"id": number, "type": "event", "event": event})

    # ---- REST

    async def api(self, request: web.Request) -> web.Response:
        """Say that it is there."""
        self._check_login(request)
        return web.json_response({"message": "API running."})

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Call a service, or fail to."""
        self._check_login(request)
        failure = self.planned.pop(0) if self.planned else ""
        if failure == "limited":
            return web.json_response({}, status=429, headers={"Retry-After": "1"})
        domain, service = request.match_info["domain"], request.match_info["service"]
        if failure == "refused" or (domain, service == "create") not in (
            ("notify", False),
            (PANEL, True),
        ):
            return web.json_response({"message": "Bad Request"}, status=400)
        self._notify(domain, service, await request.json())
        if failure == "lost answer":
            return cut(request)
        return web.json_response([])

    def _notify(self, domain: str, service: str, told: Mapping[str, Any]) -> None:
        assert isinstance(told["message"], str), told
        if domain == PANEL:
            assert told.keys() <= {"message", "title", "notification_id"}, told
            chat, tag, actions = PANEL, told["notification_id"], {}
        else:
            assert told.keys() <= {"message", "title", "target", "data"}, told
            chat, data = service, told.get("data", {})
            tag, listed = data["tag"], data.get("actions", [])
            assert len(listed) <= 3, "Android shows no more"
            actions = {each["action"]: each["title"] for each in listed}
        before = self.shown[chat].get(tag)
        versions = before.versions + 1 if before else 1
        self.shown[chat][tag] = Notification(told["message"], actions, versions)

    def _check_login(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized

    # ---- WebSocket

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "auth_required", "ha_version": "2026.11.0"})
        login = await socket.receive_json()
        if login.get("type") != "auth" or login.get("access_token") != TOKEN:
            await socket.send_json({"type": "auth_invalid", "message": "Invalid access token"})
            await socket.close()
            return socket
        await socket.send_json({"type": "auth_ok", "ha_version": "2026.11.0"})
        client = _Client(socket)
        self._clients.append(client)
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._command(client, message.json())
        finally:
            self._clients.remove(client)
        return socket

    async def _command(self, client: _Client, asked: Mapping[str, Any]) -> None:
        number, kind = asked["id"], asked["type"]
        answer: dict[str, Any] = {"id": number, "type": "result", "success": True, "result": None}
        if number <= client.last_id:
            answer |= {"success": False, "error": {"code": "id_reuse", "message": "Identifier"}}
        elif kind == "ping":
            answer = {"id": number, "type": "pong"}
        elif kind == "get_states":
            answer["result"] = list(self.states.values())
        elif kind in self.listed:
            answer["result"] = self.listed[kind]
        elif kind == "call_service":
            await self._serve(client, asked, answer)
        elif kind == "subscribe_events" and (
            self.is_admin or asked["event_type"] == "state_changed"
        ):
            client.subscribed[asked["event_type"]] = number
            is_ours = asked["event_type"] == "hermes_message"
            while is_ours and self.waiting and not client.socket.closed:
                await self.waiting.popleft()
        else:
            code = "unauthorized" if kind == "subscribe_events" else "unknown_command"
            answer |= {"success": False, "error": {"code": code, "message": code}}
        client.last_id = max(client.last_id, number)
        if not client.socket.closed:
            await client.socket.send_json(answer)

    async def _serve(
        self, client: _Client, asked: Mapping[str, Any], answer: dict[str, Any]
    ) -> None:
        domain, service = asked["domain"], asked["service"]
        told = self.listed["get_services"].get(domain, {}).get(service)
        if told is None or ("response" in told) != asked.get("return_response", False):
            error = {"code": "not_found", "message": f"Service {domain}.{service} not found."}
            answer |= {"success": False, "error": error}
            return
        if self.planned and self.planned.pop(0) == "lost answer":
            await client.socket.close()
        targets = asked.get("target", {}).get("entity_id", [])
        self.called.append((f"{domain}.{service}", targets, asked["service_data"]))
        if self.hold is not None:
            await self.hold.wait()
        for entity_id in targets if service in _STATES else ():
            await self.change(entity_id, _STATES[service])
        answer["result"] = {"context": {"id": "01J"}, "response": told.get("answers")}


@asynccontextmanager
async def fake_homeassistant() -> AsyncGenerator[FakeHomeAssistant]:
    """A running server."""
    fake, app = FakeHomeAssistant(), web.Application()
    app.router.add_get("/api/", fake.api)
    app.router.add_get("/api/websocket", fake.socket)
    app.router.add_post("/api/services/{domain}/{service}", fake.call)
    listener, fake.url = bind()
    async with serving(listener, app):
        try:
            yield fake
        finally:
            await fake.cut()
