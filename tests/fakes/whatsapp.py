"""A phone number of WhatsApp's Cloud API for tests: it checks what it is told, and calls webhooks.

What people see is in `chats`; `say`, `press` and the like are what they do. Each becomes a call,
which is made again until it is answered with 200.
"""

import asyncio
import hmac
import json
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import web

from gateway_service.platforms.base import WebhookRequest
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from tests.fakes.http_server import bind, cut, serving
from tests.fakes.telegram_faults import Faults
from tests.fakes.whatsapp_rules import Refused, checked

TOKEN, SECRET, VERIFY, NUMBER = "EAAfake", "app-secret", "verify-me", "100200"
LIMITED = Refused(131056, "Pair rate limit hit")
CLOSED = Refused(131047, "Re-engagement message")


@dataclass(slots=True)
class Shown:
    """A message as people see it."""

    text: str
    buttons: list[str] = field(default_factory=list[str])
    kind: str = "text"
    about: dict[str, Any] = field(default_factory=dict[str, Any])


class FakeWhatsApp:
    """The number's state."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.url = ""
        self.chats: defaultdict[str, dict[str, Shown]] = defaultdict(dict)
        self.media: dict[str, tuple[str, bytes]] = {}
        self.read: list[str] = []
        self.calls: Counter[str] = Counter()
        self.errors: deque[Refused] = deque()
        """What the next messages are refused with."""
        self._notices: deque[bytes] = deque()
        self._new = asyncio.Event()
        self._numbers = count(1)

    async def say(self, chat: str, text: str, **more: Any) -> str:
        """Somebody writes."""
        return self.notify(chat, {"type": "text", "text": {"body": text}, **more})

    async def press(self, chat: str, button: str) -> None:
        """Somebody presses a button."""
        reply = {"type": "button_reply", "button_reply": {"id": button, "title": "?"}}
        self.notify(chat, {"type": "interactive", "interactive": reply, "context": {"id": "x"}})

    def notify(self, chat: str, message: dict[str, Any]) -> str:
        """Something arrives; return its id."""
        message_id = f"wamid.{next(self._numbers)}"
        head = {"from": chat, "id": message_id, "timestamp": "1700000000"}
        contact = {"profile": {"name": "Ada"}, "wa_id": chat}
        self.call({"contacts": [contact], "messages": [{**head, **message}]})
        return message_id

    def call(self, value: dict[str, Any], number: str = NUMBER) -> None:
        """The webhook is to be called."""
        metadata = {"display_phone_number": "15550001", "phone_number_id": number}
        about = {"messaging_product": "whatsapp", "metadata": metadata, **value}
        entry = {"id": "1", "changes": [{"field": "messages", "value": about}]}
        self._notices.append(
            json.dumps({"object": "whatsapp_business_account", "entry": [entry]}).encode()
        )
        self._new.set()

    async def next_call(self) -> WebhookRequest:
        """The oldest call that was not confirmed."""
        while not self._notices:
            self._new.clear()
            await self._new.wait()
        return signed(self._notices[0])

    def confirm(self) -> None:
        """The oldest call was answered with 200."""
        self._notices.popleft()

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Show a message, or fail to."""
        fault = self.faults.next("messages")
        fields = await request.json()
        if fault == "drop_before":
            return cut(request)
        try:
            self._authorize(request)
            if self.errors:
                return self._refuse(self.errors.popleft())
            if "status" in fields:
                assert fields["typing_indicator"] == {"type": "text"}
                self.read.append(fields["message_id"])
                return web.json_response({"success": True})
            shown = Shown(*checked(fields), fields["type"], fields[fields["type"]])
            if shown.about.get("id", "") not in ("", *self.media):
                return self._refuse(Refused(131052, "Media not found"))
        except Refused as error:
            return self._refuse(error)
        message_id = f"wamid.{next(self._numbers)}"
        self.chats[fields["to"]][message_id] = shown
        self.calls["messages"] += 1
        contacts = [{"input": fields["to"], "wa_id": fields["to"]}]
        result = {"messaging_product": "whatsapp", "contacts": contacts}
        if fault == "drop_after":
            return cut(request)
        return web.json_response({**result, "messages": [{"id": message_id}]})

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert form["messaging_product"] == "whatsapp"
        assert isinstance(file, web.FileField)
        media_id = f"media{next(self._numbers)}"
        self.media[media_id] = (str(form["type"]), file.file.read())
        return web.json_response({"id": media_id})

    async def look(self, request: web.Request) -> web.Response:
        """Describe the number or a file."""
        try:
            self._authorize(request)
        except Refused as error:
            return self._refuse(error)
        wanted = request.match_info["id"]
        if wanted == NUMBER:
            about = {"display_phone_number": "+1 555-0001", "verified_name": "Hermes"}
            return web.json_response({"id": NUMBER, **about})
        root = "https://evil.example" if wanted == "elsewhere" else self.url.rstrip("/")
        return web.json_response({"id": wanted, "url": f"{root}/files/{wanted}"})

    async def file(self, request: web.Request) -> web.Response:
        try:
            self._authorize(request)
        except Refused:
            return web.Response(status=401)
        found = self.media.get(request.match_info["id"])
        return web.Response(status=404) if found is None else web.Response(body=found[1])

    def _authorize(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(190, "Invalid OAuth access token")

    def _refuse(self, error: Refused) -> web.Response:
        return web.json_response(error.body, status=401 if error.code == 190 else 400)


def signed(body: bytes, secret: str = SECRET) -> WebhookRequest:
    """A call as Meta signs it."""
    digest = hmac.new(secret.encode(), body, "sha256").hexdigest()
    headers = {"content-type": "application/json", "x-hub-signature-256": f"sha256={digest}"}
    return WebhookRequest("POST", "https://hermes.example/webhooks/whatsapp", {}, headers, body)


def config_of(whatsapp: FakeWhatsApp, **more: Any) -> WhatsAppConfig:
    """The settings of the number."""
    secrets = {"token": TOKEN, "app_secret": SECRET, "verify_token": VERIFY}
    place = {"phone_number_id": NUMBER, "base_url": whatsapp.url}
    return WhatsAppConfig.model_validate({**secrets, **place, **more})


@asynccontextmanager
async def fake_whatsapp(host: str = "127.0.0.1") -> AsyncGenerator[FakeWhatsApp]:
    """A running server; `url` is the base of the Graph API."""
    whatsapp = FakeWhatsApp()
    app = web.Application()
    app.router.add_post(f"/v23.0/{NUMBER}/messages", whatsapp.messages)
    app.router.add_post(f"/v23.0/{NUMBER}/media", whatsapp.upload)
    app.router.add_get("/v23.0/{id}", whatsapp.look)
    app.router.add_get("/v23.0/files/{id}", whatsapp.file)
    listener, url = bind(host)
    whatsapp.url = f"{url}/v23.0/"
    async with serving(listener, app):
        yield whatsapp
