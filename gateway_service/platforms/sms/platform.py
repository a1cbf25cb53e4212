"""SMS by Twilio: text messages come by webhook and are sent by its REST API."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Self

from gateway_service.errors import AccountRefused, OutcomeUnknown, RateLimited, Refused, Unreachable
from gateway_service.messages import Content, RemoteFile
from gateway_service.platforms.base import (
    HEARTBEAT_S,
    Destination,
    Platform,
    Received,
    Sink,
    Traits,
    WebhookRequest,
    WebhookResult,
    stay_alive,
)
from gateway_service.platforms.http_errors import translated
from gateway_service.platforms.markup import PLAIN, render
from gateway_service.platforms.rate_limits import Rate
from gateway_service.platforms.sms.config import SmsConfig
from gateway_service.platforms.sms.events import NAME, is_signed, read_event, read_fields
from services.clock import Clock, SystemClock
from services.validation import json_object

if TYPE_CHECKING:
    import httpx

CALL_S = 15.0
MAX_BYTES = 64 * 1024
DEFAULT_WAIT_S = 5.0
EMPTY = b"<Response/>"


class SmsPlatform(Platform):
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
        self.account_id = config.phone_number
        self._client: httpx.AsyncClient | None = None

    @classmethod
    def configured(cls, config: SmsConfig) -> Self:
        return cls(config, SystemClock())

    async def __aenter__(self) -> Self:
        import httpx

        login = (self._config.account_sid, self._config.token.get_secret_value())
        try:
            self._client = httpx.AsyncClient(
                base_url=self._config.base_url, auth=login, timeout=CALL_S
            )
        except (ImportError, ValueError) as error:
            raise AccountRefused(
                f"sms cannot use the proxy that ALL_PROXY or HTTPS_PROXY names: {error}"
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def listen(self, sink: Sink) -> None:
        """Show that the platform is alive; messages come by `webhook`."""
        await stay_alive(sink, self._clock)

    async def send(self, destination: Destination, content: Content, key: str) -> str:
        number = self._config.phone_number
        sender = "MessagingServiceSid" if number.startswith("MG") else "From"
        path = f"/2010-04-01/Accounts/{self._config.account_sid}/Messages.json"
        form = {"To": destination.chat_id, sender: number, "Body": render(content.text, PLAIN)}
        with translated("Twilio"):
            answer = await self._connected.post(path, data=form)
        said = json_object(answer.content) or {}
        _check(answer, str(said.get("message", "")))
        return str(said["sid"])

    async def edit(self, destination: Destination, message_id: str, content: Content) -> None:
        raise Refused("text messages cannot be changed")

    async def download(self, file: RemoteFile) -> AsyncGenerator[bytes]:
        if not file.id.startswith(f"{self._config.base_url}/"):
            raise Refused("the file is not at Twilio")
        with translated("Twilio"):
            # The file itself is elsewhere, where the password is not sent.
            async with self._connected.stream("GET", file.id, follow_redirects=True) as answer:
                _check(answer)
                async for chunk in answer.aiter_bytes():
                    yield chunk

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

    @property
    def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            raise Unreachable("not connected")
        return self._client


def _check(answer: "httpx.Response", why: str = "") -> None:
    """Raise why Twilio did not do something."""
    status = answer.status_code
    if status == 401:
        raise AccountRefused("Twilio refuses the account; check TWILIO_AUTH_TOKEN")
    if status == 429:
        wait = answer.headers.get("retry-after", "")
        wait_s = float(wait) if wait.isdecimal() else DEFAULT_WAIT_S
        raise RateLimited("Twilio asks to wait", wait_s)
    if status >= 500:
        raise OutcomeUnknown(f"Twilio answered {status}")
    if status >= 400:
        raise Refused(f"Twilio refused: {why or status}")
