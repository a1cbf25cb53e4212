"""Twilio for tests: checks what it is told to send, and signs what it tells."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway_service.platforms.base import WebhookRequest
from gateway_service.platforms.sms.config import SmsConfig
from tests.fakes.http_server import Cut, bind, serving_routes

SID = "AC" + "0" * 32
TOKEN = "twilio-auth-token-0123456789"
NUMBER = "+15550001111"
URL = "https://hermes.example.org/webhooks/sms"
PICTURE = b"\x89PNG of a cat"
REFUSALS = {
    "limited": (429, 20429, "Too Many Requests"),
    "refused": (400, 21610, "Attempt to send to unsubscribed recipient"),
    "broken": (503, 20500, "Service Unavailable"),
}
_PATH = "/2010-04-01/Accounts/{sid}"


class FakeTwilio:
    """The server's state; `sent` has the number and the text of each message by its id."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, str]] = {}
        self.url = ""
        self.faults: list[str] = []
        """What goes wrong next: `limited`, `refused`, `broken` or `drop_after`."""
        self.loss = 0.0
        """How many answers are lost, and how many calls are limited or broken."""
        self._dice = random.Random(1)
        self._calls: list[WebhookRequest] = []
        self._ids = count(1)
        self._changed = asyncio.Condition()

    def event(
        self, url: str, text: str, number: str = "+491511234567", **more: str
    ) -> WebhookRequest:
        """What Twilio sends to an address when somebody writes."""
        fields = {
            "MessageSid": f"SM{next(self._ids):032x}",
            "AccountSid": SID,
            "From": number,
            "To": NUMBER,
            "Body": text,
            "NumMedia": "0",
            **more,
        }
        return signed(url, fields)

    async def say(self, number: str, text: str) -> None:
        """Somebody writes; the call is made until it is confirmed."""
        async with self._changed:
            self._calls.append(self.event(URL, text, number))
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once what was sent makes the condition true."""
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(condition)

    async def next_call(self) -> WebhookRequest:
        """The first call that was not confirmed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._calls)
            return self._calls[0]

    def confirm(self) -> None:
        """Take a call as answered."""
        del self._calls[0]

    async def account(self, request: Request) -> Response:
        if not self._may(request):
            return _refuse(401, 20003, "Authenticate")
        return JSONResponse({"sid": SID, "status": "active"})

    async def create(self, request: Request) -> Response:
        if not self._may(request):
            return _refuse(401, 20003, "Authenticate")
        fields = dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        fault = self.faults.pop(0) if self.faults else ""
        if self._dice.random() < self.loss:
            fault = self._dice.choice(("drop_after", "limited", "broken"))
        if fault in REFUSALS:
            return _refuse(*REFUSALS[fault])
        if problem := _check(fields):
            return _refuse(400, *problem)
        sid = f"SM{next(self._ids):032x}"
        async with self._changed:
            self.sent[sid] = (fields["To"], fields["Body"])
            self._changed.notify_all()
        return Cut() if fault == "drop_after" else JSONResponse({"sid": sid}, 201)

    async def media(self, request: Request) -> Response:
        if not self._may(request):
            return _refuse(401, 20003, "Authenticate")
        # Another origin, which may not see the password.
        return RedirectResponse(self.url.replace("127.0.0.1", "localhost") + "/store/cat", 307)

    async def store(self, request: Request) -> Response:
        assert "authorization" not in request.headers
        return Response(PICTURE, media_type="image/png")

    def _may(self, request: Request) -> bool:
        try:
            header = request.headers.get("authorization", "")
            given = base64.b64decode(header.removeprefix("Basic "))
        except binascii.Error:
            return False
        return given.decode() == f"{SID}:{TOKEN}" and request.path_params["sid"] == SID


def config_of(url: str, token: str = TOKEN) -> SmsConfig:
    """The settings of the account."""
    given = {"account_sid": SID, "token": token, "phone_number": NUMBER, "base_url": url}
    return SmsConfig.model_validate(given)


def signed(url: str, fields: Mapping[str, str], token: str = TOKEN) -> WebhookRequest:
    """A request with Twilio's signature."""
    said = url + "".join(name + fields[name] for name in sorted(fields))
    digest = hmac.new(token.encode(), said.encode(), hashlib.sha1).digest()
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-twilio-signature": base64.b64encode(digest).decode(),
    }
    return WebhookRequest("POST", url, {}, headers, urlencode(fields).encode())


def _check(fields: Mapping[str, str]) -> tuple[int, str] | None:
    """What is wrong with a message, if anything."""
    body = fields.get("Body", "")
    if fields.get("From") != NUMBER:
        return 21606, "The 'From' phone number is not yours"
    if not re.fullmatch(r"\+?[1-9]\d{0,14}", fields.get("To", "")):
        return 21211, "Invalid 'To' Phone Number"
    if not body.strip():
        return 21602, "Message body is required"
    if len(body.encode("utf-16-le")) // 2 > 1600:
        return 21617, "The concatenated message body exceeds the 1600 character limit"
    return None


def _refuse(status: int, code: int, message: str) -> Response:
    headers = {"Retry-After": "1"} if status == 429 else None
    return JSONResponse({"code": code, "message": message, "status": status}, status, headers)


@asynccontextmanager
async def fake_twilio() -> AsyncGenerator[FakeTwilio]:
    """A running server."""
    twilio = FakeTwilio()
    routes = [
        Route(f"{_PATH}.json", twilio.account, methods=["GET"]),
        Route(f"{_PATH}/Messages.json", twilio.create, methods=["POST"]),
        Route(f"{_PATH}/Messages/{{message}}/Media/{{media}}", twilio.media, methods=["GET"]),
        Route("/store/cat", twilio.store, methods=["GET"]),
    ]
    listener, twilio.url = bind()
    async with serving_routes(listener, routes):
        yield twilio
