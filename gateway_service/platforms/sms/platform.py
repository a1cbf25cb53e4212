"""SMS by Twilio: text messages come by webhook and are sent by its REST API."""

import base64
import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Sequence
from urllib.parse import parse_qsl

from gateway_service.messages import Content, MessageEvent, RemoteFile, Source, find_kind
from gateway_service.platforms.base import (
    HEARTBEAT_S,
    Destination,
    Received,
    Sink,
    Traits,
    WebhookRequest,
    WebhookResult,
    stay_alive,
)
from gateway_service.platforms.http_api import HttpApi, HttpPlatform
from gateway_service.platforms.markup import PLAIN, render
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.sms.config import SmsConfig
from services.clock import Clock, SystemClock

NAME = "sms"
MAX_FIELDS = 200
MAX_FILES = 10
_ID = re.compile(r"[A-Za-z0-9]{10,64}")
Fields = Sequence[tuple[str, str]]


def read_fields(body: bytes) -> Fields | None:
    """Return the fields of a form; None if it is none."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=MAX_FIELDS
        )
    except ValueError:
        return None


def is_signed(token: str, url: str, fields: Fields, signature: str) -> bool:
    """Return whether Twilio signed the fields for this address."""
    said = url + "".join(name + value for name, value in sorted(set(fields)))
    digest = hmac.new(token.encode(), said.encode(), hashlib.sha1).digest()
    return hmac.compare_digest(base64.b64encode(digest), signature.encode(errors="replace"))


def read_event(fields: Fields) -> MessageEvent | None:
    """Return a person's message; None for anything else."""
    said = dict(fields)
    event_id, number = said.get("MessageSid", ""), said.get("From", "")
    if not _ID.fullmatch(event_id) or not number or "Body" not in said:
        return None
    source = Source(NAME, chat_id=number, user_id=number, user_name=said.get("ProfileName", ""))
    count = said.get("NumMedia", "0")
    numbers = range(min(int(count), MAX_FILES)) if count.isdecimal() else ()
    files = [_file(said, each) for each in numbers]
    text = said.get("Body", "").replace("\0", "")
    found = tuple(each for each in files if each is not None)
    return MessageEvent(event_id, source, text, files=found, message_id=event_id)


def _file(said: dict[str, str], number: int) -> RemoteFile | None:
    url, mime = said.get(f"MediaUrl{number}", ""), said.get(f"MediaContentType{number}", "")
    return RemoteFile(find_kind(mime), url, mime=mime) if url else None


VARIABLES = "TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN"
MAX_BYTES = 64 * 1024
EMPTY = b"<Response/>"


class SmsPlatform(HttpPlatform[HttpApi]):
    """A phone number."""

    name = NAME
    traits = Traits(
        message_units=1600,
        rate=Rate(per_second=1.0, burst=5),
        can_edit=False,
        buttons=0,
        deaf_after_s=3 * HEARTBEAT_S,
    )

    def __init__(self, config: SmsConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self.account_id = self.identity = config.phone_number
        self._account = f"/2010-04-01/Accounts/{config.account_sid}"
        login = f"{config.account_sid}:{config.token.get_secret_value()}"
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
        self._api = HttpApi("Twilio", config.base_url, headers, VARIABLES)

    async def _log_in(self) -> None:
        await self._api.call("GET", f"{self._account}.json")

    async def listen(self, sink: Sink) -> None:
        """Show that the platform is alive; messages come by `webhook`."""
        await stay_alive(sink, self._clock)

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        number = self._config.phone_number
        sender = "MessagingServiceSid" if number.startswith("MG") else "From"
        form = {"To": destination.chat_id, sender: number, "Body": render(content.text, PLAIN)}
        said = await self._api.call("POST", f"{self._account}/Messages.json", data=form)
        return str(said["sid"])

    def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        # The file itself is elsewhere.
        return self._api.download(file.id, follow=True)

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        if request.method != "POST" or len(request.body) > MAX_BYTES:
            return WebhookResult(405 if request.method != "POST" else 413)
        # Twilio signs the fields, not the body.
        fields, token = read_fields(request.body), self._config.token.get_secret_value()
        signature = request.headers.get("x-twilio-signature", "")
        if fields is None or not is_signed(token, request.url, fields, signature):
            return WebhookResult(401, b"the signature is missing or wrong")
        event = read_event(fields)
        received = Received(() if event is None else (event,))
        return WebhookResult(body=EMPTY, content_type="text/xml", received=received)
