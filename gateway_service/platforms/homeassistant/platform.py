"""Home Assistant: states and notifications, through its WebSocket and REST APIs."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway_service.errors import AccountRefused, Refused, Unreachable, no_answer
from gateway_service.messages import Content
from gateway_service.platforms.base import Destination, Json, Received, Sink, Traits, store_at_once
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.homeassistant.events import (
    CHANGED,
    NAME,
    NOTHING_TO_SAY,
    PRESSED,
    REPLY,
    SAID,
    EventReader,
    action_of,
    changed_at,
)
from gateway_service.platforms.http_api import HttpApi, HttpPlatform
from gateway_service.platforms.rate_limits import Rate
from services.validation import object_of

if TYPE_CHECKING:
    import aiohttp

CALL_S = 10.0
HEARTBEAT_S = 20.0
IN_THE_PANEL = "persistent_notification"
TITLE = "Hermes"
REFUSED = "homeassistant refuses the token; check HASS_TOKEN"

_BUTTONS = 3
"""How many actions Android shows."""
_SERVICE = re.compile(r"[a-z0-9_]{1,100}")
_REPEATED_S = 24 * 3600.0


class HomeAssistantPlatform(HttpPlatform[HttpApi]):
    """A Home Assistant; its chats are notify services, and the panel of notifications."""

    name = NAME
    traits = Traits(
        message_units=1000,
        rate=Rate(per_second=1.0, burst=5),
        can_edit=False,
        repeats_safely_s=_REPEATED_S,
        buttons=_BUTTONS,
        markup="Notifications on phones show plain text; keep answers short.",
    )

    def __init__(self, config: HomeAssistantConfig) -> None:
        self.account_id = self.identity = urlsplit(config.url).netloc.rpartition("@")[2]
        self._config = config
        self._reader = EventReader(config)
        headers = {"Authorization": f"Bearer {config.token.get_secret_value()}"}
        self._api = HttpApi(NAME, config.url, headers, "HASS_TOKEN", has_proxy=False)

    async def _log_in(self) -> None:
        await self._api.call("GET", "/api/")

    async def listen(self, sink: Sink) -> None:
        try:
            async with self._socket() as socket:
                for kind in (*(CHANGED,) * self._config.watches, PRESSED, SAID):
                    await socket.ask("subscribe_events", event_type=kind)
                states = await socket.ask("get_states") if self._config.watches else 0
                async for message in socket.messages():
                    await store_at_once(sink, self._received(message, states, sink.cursor))
        except (TypeError, ValueError) as error:
            # A WebSocket that was closed gives something that is no text.
            raise no_answer("homeassistant", error) from None

    @asynccontextmanager
    async def _socket(self) -> AsyncGenerator["_Socket"]:
        token = self._config.token.get_secret_value()
        async with self._api.socket("/api/websocket") as socket:
            await socket.receive_json(timeout=CALL_S)
            await socket.send_json({"type": "auth", "access_token": token})
            answer = await socket.receive_json(timeout=CALL_S)
            if answer.get("type") != "auth_ok":
                raise AccountRefused(REFUSED)
            yield _Socket(socket)

    def _received(self, message: Json, states: int, cursor: str) -> Received:
        now = asyncio.get_running_loop().time()
        if message.get("type") == "event":
            event = object_of(message.get("event"))
            new = object_of(object_of(event.get("data")).get("new_state"))
            found = self._reader.read(event, now)
            # Homes have many changes; those that are no messages are not worth a write.
            return Received([found], changed_at(new)) if found else Received()
        if message.get("success") is False:
            why = object_of(message.get("error"))
            if why.get("code") == "unauthorized":
                raise AccountRefused("homeassistant: HASS_TOKEN must be an administrator's")
            raise Unreachable(f"homeassistant: {why.get('message')}")
        if message.get("type") != "result" or message.get("id") != states:
            return Received()
        listed = [object_of(each) for each in message["result"]]
        found = self._reader.catch_up(listed, cursor, now)
        return Received([found] if found else [], max(map(changed_at, listed), default=""))

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        chat_id = destination.chat_id.removeprefix("notify.")
        if not _SERVICE.fullmatch(chat_id):
            raise Refused(f"homeassistant: {destination.chat_id!r} is no notify service")
        if content.text.strip().startswith(NOTHING_TO_SAY):
            return key
        if chat_id == IN_THE_PANEL:
            labels = "".join(f"\n- {button.label}" for button in content.buttons)
            text = f"{content.text}{labels}"
            told = {"title": TITLE, "message": text, "notification_id": key}
            await self._serve(f"{IN_THE_PANEL}/create", told)
            return key
        actions = [
            {"action": action_of(chat_id, button.data), "title": button.label}
            for button in content.buttons
        ]
        if len(actions) < _BUTTONS:
            reply = {"action": action_of(chat_id, REPLY), "title": "Reply", "behavior": "textInput"}
            actions.append(reply)
        # A notification takes the place of an earlier one with its tag.
        data = {"tag": key, "group": TITLE, "actions": actions}
        await self._serve(f"notify/{chat_id}", {"message": content.text, "data": data})
        return key

    async def _serve(self, service: str, data: Json) -> None:
        try:
            await self._api.call("POST", f"/api/services/{service}", json=data)
        except Refused as error:
            why = f"homeassistant does not know or refuses {service.replace('/', '.')}"
            raise Refused(why) from error


class _Socket:
    """The WebSocket after the login."""

    def __init__(self, socket: "aiohttp.ClientWebSocketResponse") -> None:
        self._socket = socket
        self._ids = count(1)

    async def ask(self, kind: str, **fields: Any) -> int:
        """Send a command; return its id."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "type": kind, **fields})
        return number

    async def messages(self) -> AsyncGenerator[Json]:
        """Yield messages, among them answers to heartbeats; fails in the end."""
        is_asked = False
        while True:
            try:
                message = await self._socket.receive_str(timeout=HEARTBEAT_S)
            except TimeoutError:
                if is_asked:
                    raise
                is_asked = bool(await self.ask("ping"))
                continue
            is_asked = False
            yield object_of(json.loads(message))
