"""SMS: what Twilio tells, what it is told to send, and what goes wrong."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway_service.accounts.builtin import builtin_platforms
from gateway_service.config import GatewayConfig
from gateway_service.errors import Refused
from gateway_service.messages import Content, FileKind, MessageEvent, RemoteFile
from gateway_service.platforms.base import Destination, WebhookRequest, WebhookResult
from gateway_service.platforms.markup import render
from gateway_service.platforms.sms.platform import PLAIN, SmsPlatform
from services.clock import SystemClock
from services.config.settings import ConfigError
from services.runtime.checks import Verdict
from tests.fakes.twilio import NUMBER, PICTURE, SID, TOKEN, FakeTwilio, fake_twilio, signed
from tests.fakes.twilio import config_of as config
from tests.support.platform_checks import checked
from tests.unit.services.settings import settings

URL = "https://hermes.example.org/webhooks/sms"
ADA = Destination("+491511234567")


@pytest.fixture
async def twilio() -> AsyncGenerator[FakeTwilio]:
    async with fake_twilio() as server:
        yield server


@pytest.fixture
async def platform(twilio: FakeTwilio) -> AsyncGenerator[SmsPlatform]:
    async with SmsPlatform(config(twilio.url), SystemClock()) as made:
        yield made


def event_of(result: WebhookResult) -> MessageEvent:
    assert (result.status, result.body, result.content_type) == (200, b"<Response/>", "text/xml")
    [event] = result.received.events
    assert isinstance(event, MessageEvent)
    return event


async def test_a_text_message_is_received(twilio: FakeTwilio, platform: SmsPlatform) -> None:
    request = twilio.event(URL, "Grüß dich & alles + mehr", ProfileName="Ada")
    event = event_of(await platform.webhook(request))
    assert event.text == "Grüß dich & alles + mehr"
    source = event.source
    assert (source.platform, source.chat_id, source.chat_type) == ("sms", ADA.chat_id, "dm")
    assert (source.user_id, source.user_name) == (ADA.chat_id, "Ada")
    assert event_of(await platform.webhook(request)).event_id == event.event_id


async def test_a_picture_is_received(twilio: FakeTwilio, platform: SmsPlatform) -> None:
    url = f"{twilio.url}/2010-04-01/Accounts/{SID}/Messages/MM1/Media/ME1"
    about = {"NumMedia": "1", "MediaUrl0": url, "MediaContentType0": "image/png"}
    event = event_of(await platform.webhook(twilio.event(URL, "", **about)))
    assert event.files == (RemoteFile(FileKind.IMAGE, url, mime="image/png"),)
    async with aclosing(platform.download(event.files[0])) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == PICTURE
    with pytest.raises(Refused):
        async with aclosing(platform.download(RemoteFile(FileKind.IMAGE, "http://x/"))) as chunks:
            await anext(chunks)


async def test_what_is_not_signed_is_refused(twilio: FakeTwilio, platform: SmsPlatform) -> None:
    good = twilio.event(URL, "hi")
    fields = {"MessageSid": "SM" + "1" * 32, "From": "+15557654321", "Body": "hi"}
    refused = {
        "another address": WebhookRequest("POST", URL + "x", {}, good.headers, good.body),
        "another body": WebhookRequest("POST", URL, {}, good.headers, good.body + b"&a=b"),
        "no signature": WebhookRequest("POST", URL, {}, {}, good.body),
        "no text": WebhookRequest("POST", URL, {}, {"x-twilio-signature": "\udcff"}, good.body),
        "another token": signed(URL, fields, "guessed"),
        "no form": WebhookRequest("POST", URL, {}, good.headers, b"\xff{}"),
        "many fields": WebhookRequest("POST", URL, {}, good.headers, b"a=b&" * 500 + b"a=b"),
    }
    for name, request in refused.items():
        result = await platform.webhook(request)
        assert (result.status, list(result.received.events)) == (401, []), name
    assert (await platform.webhook(WebhookRequest("GET", URL, {}, {}, b""))).status == 405
    long = WebhookRequest("POST", URL, {}, good.headers, b"x" * 100_000)
    assert (await platform.webhook(long)).status == 413


async def test_reports_about_our_messages_are_no_messages(platform: SmsPlatform) -> None:
    report = signed(URL, {"MessageSid": "SM" + "1" * 32, "From": NUMBER, "MessageStatus": "sent"})
    result = await platform.webhook(report)
    assert (result.status, list(result.received.events)) == (200, [])


async def test_an_answer_is_sent_as_plain_text(twilio: FakeTwilio, platform: SmsPlatform) -> None:
    sid = await platform.send(ADA, Content("**Yes**, see [it](https://a.example/?b=1&c=2)"), "k1")
    assert twilio.sent == {sid: (ADA.chat_id, "Yes, see it (https://a.example/?b=1&c=2)")}
    longest = "ü" * platform.traits.message_units
    assert await platform.send(ADA, Content(longest), "k2")


def test_markdown_becomes_plain_text() -> None:
    text = "# Title\n- *one* `a < b`\n```py\nx = '<b>'\n```"
    assert render(text, PLAIN) == "Title\n• one a < b\nx = '<b>'"


async def test_a_name_is_no_number(platform: SmsPlatform) -> None:
    with pytest.raises(Refused):
        await platform.send(Destination("Ada"), Content("five"), "k5")


async def test_doctor_asks_twilio(twilio: FakeTwilio) -> None:
    assert (await checked(config(twilio.url))).verdict is not Verdict.FAILED
    assert "refuses" in (await checked(config(twilio.url, "wrong-token"))).message
    assert "reached" in (await checked(config("http://127.0.0.1:9"))).message


def test_the_names_of_older_homes_are_read(tmp_path: Path) -> None:
    environ = {
        "TWILIO_ACCOUNT_SID": SID,
        "TWILIO_AUTH_TOKEN": TOKEN,
        "TWILIO_PHONE_NUMBER": NUMBER,
        "SMS_ALLOWED_USERS": "+491511234567",
    }
    found = settings(tmp_path, environ=environ)
    [configured] = builtin_platforms(found.load(GatewayConfig), found.home)
    assert (configured.platform.name, configured.platform.account_id) == ("sms", NUMBER)
    assert configured.access.allowed_users == {"+491511234567"}
    with pytest.raises(ConfigError, match="TWILIO_PHONE_NUMBER must look like"):
        settings(tmp_path, environ={"TWILIO_PHONE_NUMBER": "123"}).load(GatewayConfig)
