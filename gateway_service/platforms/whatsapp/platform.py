"""WhatsApp's Cloud API: Meta calls us with messages, and messages cannot be changed."""

import hashlib
import hmac
from collections.abc import AsyncGenerator
from contextlib import aclosing
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from gateway_service.errors import Refused
from gateway_service.messages import DONE, Attachment, Button, ButtonPress, Content, RemoteFile
from gateway_service.platforms.base import (
    UNREADABLE,
    Destination,
    Recent,
    Sink,
    Traits,
    WebhookRequest,
    WebhookResult,
    stay_alive,
)
from gateway_service.platforms.http_api import HttpPlatform
from gateway_service.platforms.markup import PLAIN, Style, render, units
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.whatsapp.api import HOSTS, NAME, GraphApi
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from gateway_service.platforms.whatsapp.events import read_notification
from gateway_service.platforms.whatsapp.templates import Templates
from services.clock import Clock, SystemClock
from services.validation import json_object

MESSAGE_UNITS = 4000
"""WhatsApp allows 4096; tables need some more than their Markdown."""
BODY_UNITS = 1024
"""How long the text above buttons may be."""
REPLY_BUTTONS, REPLY_CHARS = 3, 20
ROWS, ROW_CHARS, DETAIL_CHARS = 10, 24, 72
MOST_KNOWN = 2000
CHOOSE = "Choose:"
UPLOAD_S = 60.0

_KINDS: dict[str, tuple[str, int]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".png"), ("image", 5_000_000)),
    **dict.fromkeys((".mp4", ".3gp"), ("video", 16_000_000)),
    **dict.fromkeys((".aac", ".amr", ".mp3", ".m4a", ".ogg", ".opus"), ("audio", 16_000_000)),
}
"""What a file is sent as by its suffix, if it is not larger; else as a document."""
_TYPES = {".opus": "audio/ogg"}


STYLE = Style(
    text=PLAIN.text,
    escape=PLAIN.escape,
    bold="*{}*",
    italic="_{}_",
    strike="~{}~",
    code="`{}`",
    block=lambda _language, code: f"```{code}```",
    quote=lambda text: "> " + text.replace("\n", "\n> "),
    link=PLAIN.link,
)


class WhatsAppPlatform(HttpPlatform[GraphApi]):
    """A business phone number."""

    name = NAME
    traits = Traits(
        message_units=MESSAGE_UNITS,
        rate=Rate(per_second=1 / 6, burst=20),
        can_edit=False,
        buttons=ROWS,
        typing_interval_s=20.0,
        caption_units=BODY_UNITS,
        file_bytes=50_000_000,
    )

    def __init__(self, config: WhatsAppConfig, clock: Clock | None = None) -> None:
        self.account_id = config.phone_number_id
        self._config, self._clock = config, clock or SystemClock()
        self._api = GraphApi(config)
        self._templates = Templates(config, self._api)
        self._last = Recent[str, str](MOST_KNOWN)
        """The last message by chat, which the typing indicator is for."""

    async def _log_in(self) -> None:
        fields = {"fields": "display_phone_number,verified_name"}
        found = await self._api.call("GET", f"/{self.account_id}", params=fields)
        number, name = found.get("display_phone_number", ""), found.get("verified_name", "")
        self.identity = f"{number} {name}".strip()

    async def listen(self, sink: Sink) -> None:
        """Nothing comes here: Meta calls `webhook`."""
        await stay_alive(sink, self._clock)

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        if request.method == "GET":
            return self._verify(request)
        if not self._is_signed(request):
            return WebhookResult(401, b"the signature is wrong")
        try:
            received = read_notification(json_object(request.body) or {}, self.account_id)
        except UNREADABLE:
            return WebhookResult(400, b"not a notification of WhatsApp")
        for each in received.events:
            self._last[each.source.chat_id] = each.event_id
        failures = await self._templates.repeat(received.failures)
        return WebhookResult(received=replace(received, failures=failures))

    def _verify(self, request: WebhookRequest) -> WebhookResult:
        """Answer Meta's question whether this is the right place."""
        wanted = self._config.verify_token.get_secret_value().encode()
        given = request.query.get("hub.verify_token", "").encode()
        if request.query.get("hub.mode") != "subscribe" or not hmac.compare_digest(given, wanted):
            return WebhookResult(403, b"the verify token is wrong")
        return WebhookResult(body=request.query.get("hub.challenge", "").encode())

    def _is_signed(self, request: WebhookRequest) -> bool:
        secret = self._config.app_secret.get_secret_value().encode()
        wanted = f"sha256={hmac.new(secret, request.body, hashlib.sha256).hexdigest()}"
        given = request.headers.get("x-hub-signature-256", "")
        return hmac.compare_digest(given.encode(), wanted.encode())

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        try:
            message_id = await self._create(destination, content)
        except Refused as error:
            return await self._templates.send(destination.chat_id, content, error)
        self._templates.keep(message_id, destination.chat_id, content)
        return message_id

    async def _create(self, destination: Destination, content: Content) -> str:
        to, text = destination.chat_id, render(content.text, STYLE)
        if content.attachment is not None:
            return await self._send_file(to, text, content.attachment)
        if not content.buttons:
            return await self._send(to, "text", {"body": text, "preview_url": False})
        if units(text) > BODY_UNITS:
            await self._send(to, "text", {"body": text, "preview_url": False})
            text = CHOOSE
        return await self._send(to, "interactive", _choice(text, content.buttons))

    async def _send_file(self, to: str, text: str, file: Attachment) -> str:
        from aiohttp import FormData

        suffix = PurePosixPath(file.name).suffix.lower()
        kind, most_bytes = _KINDS.get(suffix, ("document", 0))
        if file.length_bytes > most_bytes:
            kind = "document"
        mime = _TYPES.get(suffix, file.mime)
        form = FormData({"messaging_product": NAME, "type": mime})
        form.add_field("file", BytesIO(file.data), content_type=mime, filename=file.name)
        uploaded = await self._api.post("media", data=form, limit_s=UPLOAD_S)
        about: dict[str, Any] = {"id": uploaded["id"]}
        if kind == "document":
            about["filename"] = file.name
        if kind == "audio":
            about |= {"voice": True} if suffix in (".ogg", ".opus") else {}
            if text:
                await self._send(to, "text", {"body": text, "preview_url": False})
        elif text:
            about["caption"] = text
        return await self._send(to, kind, about)

    async def _send(self, to: str, kind: str, about: dict[str, Any]) -> str:
        body = {"messaging_product": NAME, "recipient_type": "individual", "to": to}
        found = await self._api.post("messages", json={**body, "type": kind, kind: about})
        return found["messages"][0]["id"]

    async def typing(self, destination: Destination) -> None:
        """Mark the last message as read, and show that an answer is being written."""
        if message_id := self._last.get(destination.chat_id):
            about = {"status": "read", "message_id": message_id}
            typing = {"typing_indicator": {"type": "text"}}
            await self._api.post("messages", json={"messaging_product": NAME, **about, **typing})

    async def acknowledge(self, press: ButtonPress, text: str) -> None:
        """Tell the person what nothing else shows."""
        if text != DONE:
            await self._send(press.source.chat_id, "text", {"body": text})

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        url = (await self._api.call("GET", f"/{file.id}"))["url"]
        async with aclosing(self._api.download(url, HOSTS)) as chunks:
            async for chunk in chunks:
                yield chunk


def _choice(text: str, buttons: tuple[Button, ...]) -> dict[str, Any]:
    """Return buttons below a text, or a list where they are too many or too long."""
    is_short = all(len(each.label) <= REPLY_CHARS for each in buttons)
    if is_short and len(buttons) <= REPLY_BUTTONS:
        replies = [
            {"type": "reply", "reply": {"id": each.data, "title": each.label}} for each in buttons
        ]
        return {"type": "button", "body": {"text": text}, "action": {"buttons": replies}}
    rows = [
        {
            "id": each.data,
            "title": each.label[:ROW_CHARS],
            **({"description": each.label[:DETAIL_CHARS]} if len(each.label) > ROW_CHARS else {}),
        }
        for each in buttons
    ]
    action = {"button": CHOOSE.rstrip(":"), "sections": [{"rows": rows}]}
    return {"type": "list", "body": {"text": text}, "action": action}
