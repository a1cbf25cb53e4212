"""Payloads that leave out fields, or send null for them, as platforms do."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from gateway_service.messages import MessageEvent
from gateway_service.platforms.signal.events import read_event
from gateway_service.platforms.slack.api import SlackApi
from gateway_service.platforms.slack.config import SlackConfig
from gateway_service.platforms.slack.events import EventReader
from gateway_service.platforms.whatsapp.events import read_notification
from services.clock import SystemClock


def test_a_message_of_signal_may_have_null_lists() -> None:
    data = {"timestamp": 1, "message": "hi", "attachments": None, "mentions": None, "quote": None}
    odd: dict[str, Any] = {
        "attachments": [{"id": None}],
        "mentions": [{}],
        "quote": {"text": "so", "author": "+3"},
    }
    for each in (data, {**data, **odd}):
        envelope = {"sourceNumber": "+1", "dataMessage": {**each, "groupInfo": None}}
        event = read_event(json.dumps({"envelope": envelope}), "+2")
        assert isinstance(event, MessageEvent)
        assert event.text == "hi"


def test_a_message_of_whatsapp_may_come_without_a_name() -> None:
    value = {
        "metadata": {"phone_number_id": "5"},
        "contacts": [{"wa_id": "1", "profile": None}],
        "messages": [
            {"id": "m", "from": "1", "type": "text", "text": {"body": "hi"}},
            {"id": "n", "from": "1", "type": "button", "button": {"text": "Go on", "payload": "x"}},
        ],
        "statuses": None,
    }
    body = {"entry": [{"changes": [{"field": "messages", "value": value}]}]}
    events = read_notification(body, "5").events
    said = [(it.text, it.source.user_name) for it in events if isinstance(it, MessageEvent)]
    assert said == [("hi", ""), ("Go on", "")]


async def test_a_message_of_slack_may_name_apps_in_brief() -> None:
    reader = EventReader(SlackApi(SlackConfig()), SystemClock(), reply_in_thread=True)
    command = {"command": "/hermes", "channel_id": "D1", "user_id": "U1", "trigger_id": "1"}
    found = await reader.read("slash_commands", {**command, "text": None, "user_name": None})
    assert isinstance(found, MessageEvent)
    assert found.text == "/help"
    event = {"type": "message", "channel": "D1", "ts": "1.0", "user": "USLACKBOT", "text": None}
    told = {"type": "event_callback", "event": event, "authorizations": [{"user_id": "U2"}]}
    assert await reader.read("events_api", told) is None


@pytest.mark.parametrize("token", ["xoxb-1-secret", "xoxb-secret"])
def test_no_part_of_a_secret_names_an_account_of_slack(token: str) -> None:
    app_token = SecretStr("xapp-1")
    found = SlackApi(SlackConfig(token=SecretStr(token), app_token=app_token)).account_id
    assert found
    assert "secret" not in found
