"""Slack's calls to the gateway: signatures, handshakes, and what they bring."""

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway_service.errors import RateLimited
from gateway_service.messages import ButtonPress, MessageEvent, Source
from gateway_service.platforms.base import WebhookRequest
from gateway_service.platforms.slack.webhook import SlackWebhook, make_slack
from tests.fakes.slack import SECRET, FakeSlack, callback, config_of, signed


@pytest.fixture
def called(slack: FakeSlack) -> SlackWebhook:
    platform = make_slack(config_of(slack, app_token="", signing_secret=SECRET))
    assert isinstance(platform, SlackWebhook)
    return platform


def request(
    body: bytes, kind: str = "application/json", headers: Mapping[str, str] | None = None
) -> WebhookRequest:
    """What Slack sends."""
    found = {"content-type": kind, **(signed(body) if headers is None else headers)}
    return WebhookRequest("POST", "https://hermes.example/webhooks/slack", {}, found, body)


async def test_slack_calls_with_events(slack: FakeSlack, called: SlackWebhook) -> None:
    event = {"type": "message", "channel_type": "im", "channel": "D1", "user": "U7"}
    body = json.dumps(callback({**event, "ts": "1.1", "text": "hello"})).encode()
    result = await called.webhook(request(body))
    assert result.status == 200
    [said] = result.received.events
    assert said == MessageEvent(
        "D1:1.1", Source("slack", "D1", "", "U7", "Ada"), "hello", message_id="1.1"
    )
    challenge = b'{"type": "url_verification", "challenge": "abc", "token": "x"}'
    assert (await called.webhook(request(challenge))).body == b"abc"


async def test_slack_calls_with_presses_and_commands(called: SlackWebhook) -> None:
    container = {"channel_id": "D1", "message_ts": "1.1"}
    actions = [{"type": "button", "value": "q:1", "action_ts": "2.2"}]
    press = {"type": "block_actions", "user": {"id": "U7"}, "container": container}
    form = "application/x-www-form-urlencoded"
    body = urlencode({"payload": json.dumps({**press, "actions": actions})}).encode()
    [pressed] = (await called.webhook(request(body, form))).received.events
    assert isinstance(pressed, ButtonPress)
    assert pressed.data == "q:1"
    command = {"command": "/hermes", "text": "new", "trigger_id": "3.3", "user_id": "U7"}
    body = urlencode({**command, "channel_id": "D1", "ssl_check": "0"}).encode()
    [said] = (await called.webhook(request(body, form))).received.events
    assert isinstance(said, MessageEvent)
    assert said.text == "/new"


def _forged(body: bytes) -> Mapping[str, Mapping[str, str]]:
    good, now = signed(body), int(time.time())
    signature = "x-slack-signature"
    return {
        "none": {},
        "empty": {**good, signature: ""},
        "of another body": {**good, signature: signed(b"other")[signature]},
        "with another secret": signed(body, secret="other"),
        "old": signed(body, now - 301),
        "of the future": signed(body, now + 301),
        "an old one with a new time": {
            **signed(body, now - 301),
            "x-slack-request-timestamp": str(now),
        },
        "a time that is none": {**good, "x-slack-request-timestamp": "½"},
        "not ASCII": {**good, signature: "v0=é"},
    }


@pytest.mark.parametrize("how", list(_forged(b"")))
async def test_forged_requests_are_refused_before_they_are_read(
    called: SlackWebhook, how: str
) -> None:
    body = b"{"
    assert (await called.webhook(request(body))).status == 400
    assert (await called.webhook(request(body, headers=_forged(body)[how]))).status == 401


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"{}", b'{"type": "event_callback"}', b"\xff", b'{"type": []}']
)
@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
async def test_odd_requests_do_no_harm(called: SlackWebhook, kind: str, body: bytes) -> None:
    result = await called.webhook(request(body, kind))
    assert result.status in (200, 400)
    assert not result.received.events


async def test_slack_calls_again_later_what_cannot_be_read_now(
    slack: FakeSlack, called: SlackWebhook
) -> None:
    event: dict[str, Any] = {"type": "message", "channel": "C1", "user": "U7", "text": "hello"}
    body = json.dumps(callback({**event, "ts": "2.2", "thread_ts": "1.1"})).encode()
    slack.faults.planned["conversations.replies"].append("limited")
    with pytest.raises(RateLimited):
        await called.webhook(request(body))
