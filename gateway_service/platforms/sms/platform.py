"""SMS by Twilio: text messages come by webhook and are sent by its REST API."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Self

from gateway_service.messages import Content, RemoteFile
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
from gateway_service.platforms.sms.events import NAME, is_signed, read_event, read_fields
from services.clock import Clock, SystemClock

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

    def __init__(self, config: SmsConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.account_id = self.identity = config.phone_number
        self._account = f"/2010-04-01/Accounts/{config.account_sid}"
        login = f"{config.account_sid}:{config.token.get_secret_value()}"
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
        self._api = HttpApi("Twilio", config.base_url, headers, VARIABLES)

    @classmethod
    def configured(cls, config: SmsConfig) -> Self:
        return cls(config, SystemClock())

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
