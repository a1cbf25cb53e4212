"""What platforms send may be anything: it is read or passed over, stored, and the next is read."""

import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace
from nio import MatrixRoom
from prometheus_client import CollectorRegistry
from telegram import Update

from gateway_service.chats.sessions import session_key
from gateway_service.errors import MessageGone, Refused
from gateway_service.messages import Event, MessageEvent, Source
from gateway_service.metrics import GatewayMetrics
from gateway_service.platforms.base import UNREADABLE, HasWebhook, Received, WebhookRequest
from gateway_service.platforms.email.letters import Sender, message_of, parsed
from gateway_service.platforms.email.senders import is_automatic, is_confirmed, sender_of
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.homeassistant.events import EventReader as HomeReader
from gateway_service.platforms.matrix.events import Account, read_message
from gateway_service.platforms.mattermost.posts import MattermostApi, Person, PostReader
from gateway_service.platforms.signal.events import read_event
from gateway_service.platforms.slack.api import SlackApi
from gateway_service.platforms.slack.config import SlackConfig
from gateway_service.platforms.slack.events import EventReader as SlackReader
from gateway_service.platforms.sms.platform import SmsPlatform
from gateway_service.platforms.telegram.events import Bot, drop_unreadable, find_moves, read_updates
from gateway_service.platforms.webhook.config import WebhookConfig
from gateway_service.platforms.webhook.platform import WebhookPlatform
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from gateway_service.platforms.whatsapp.platform import WhatsAppPlatform
from gateway_service.storage import inbox, migrations
from gateway_service.turns.inbox import Inbox
from services.clock import SystemClock
from services.database import Database
from services.database.migrations import prepare
from services.redaction.redactor import Redactor
from services.telemetry.metrics import Meter
from tests.fakes import twilio, whatsapp
from tests.integration.gateway_replicas import CONFIG
from tests.security.discord_feed import discord
from tests.support.mutations import HOSTILE, mutated
from tests.unit.gateway.test_webhook import sign

UPDATES, TOGETHER = int(os.environ.get("HERMES_FUZZED", "200")), 50
ME, ADA = "@hermes:x.org", "@ada:x.org"
Json = dict[str, Any]
Feed = Callable[[random.Random], Awaitable[Sequence[Event]]]


def telegram() -> Feed:
    chat, ada = {"id": 7, "type": "private"}, {"id": 7, "is_bot": False, "first_name": "Ada"}
    file = {"file_id": "f", "file_unique_id": "u", "file_size": 2, "file_name": "a.txt"}
    entity = {"type": "mention", "offset": 0, "length": 4}
    message = {
        "message_id": 1,
        "date": 1,
        "chat": chat,
        "from": ada,
        "text": "@bot hello",
        "entities": [entity],
        "document": file,
        "photo": [{**file, "width": 1, "height": 1}],
    }
    told = {**message, "reply_to_message": message, "quote": {"text": "q", "position": 0}}
    pressed = {"id": "1", "from": ada, "chat_instance": "1", "message": message, "data": "a"}
    thumb = [{"type": "emoji", "emoji": "👍"}]
    about = {"chat": chat, "message_id": 1, "user": ada, "date": 1}
    reaction = {**about, "old_reaction": [], "new_reaction": thumb}
    kinds: list[Json] = [
        {"message": told},
        {"edited_message": {**message, "edit_date": 2}},
        {"callback_query": pressed},
        {"message_reaction": reaction},
        {"message": {**message, "migrate_to_chat_id": -5}},
    ]

    async def feed(dice: random.Random) -> Sequence[Event]:
        update = {"update_id": dice.getrandbits(40), **mutated(dice, dice.choice(kinds))}
        kept = drop_unreadable({"ok": True, "result": [update]})["result"]
        read = [Update.de_json(each, None) for each in kept]
        find_moves(read)
        return read_updates(read, Bot("42", "bot"))

    return feed


class SilentSlack(SlackApi):
    """Tells nothing."""

    async def look_up(self, method: str, /, **fields: Any) -> Json:
        raise Refused(method)


def slack() -> Feed:
    place = {"channel": "D1", "channel_type": "im", "user": "U7", "ts": "1.1", "thread_ts": "1.0"}
    file = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 3}
    share = {"text": "shared", "author_name": "Eve", "is_share": True}
    said: Json = {
        "type": "message",
        "text": "<@U7> hello <#C1|a>",
        "files": [file],
        **place,
        "attachments": [share],
    }
    changed = {**said, "text": "anew", "edited": {"ts": "2.2"}}
    reaction = {"type": "reaction_added", "user": "U7", "reaction": "+1", "event_ts": "2.2"}
    events: list[Json] = [
        said,
        {**said, "channel": "C1", "channel_type": "channel"},
        {**said, "subtype": "message_changed", "message": changed, "previous_message": said},
        {**reaction, "item": {"channel": "D1", "ts": "1.1"}},
    ]
    authorizations = [{"user_id": "UB", "is_bot": True}]
    container = {"channel_id": "D1", "message_ts": "1.1"}
    press = {"type": "block_actions", "user": {"id": "U7"}, "container": container}
    actions = [{"value": "a", "action_ts": "2"}]
    command = {"command": "/hermes", "channel_id": "D1", "user_id": "U7", "trigger_id": "1"}
    kinds: list[tuple[str, Json]] = [
        *(
            ("events_api", {"type": "event_callback", "event": e, "authorizations": authorizations})
            for e in events
        ),
        ("interactive", {**press, "actions": actions}),
        ("slash_commands", {**command, "text": "new"}),
    ]
    config = SlackConfig.model_validate({"token": "xoxb-1-2-3", "app_token": "xapp-1"})
    reader = SlackReader(SilentSlack(config), SystemClock(), reply_in_thread=True)

    async def feed(dice: random.Random) -> Sequence[Event]:
        (kind, payload), event = dice.choice(kinds), None
        with suppress(*UNREADABLE):  # the platform passes it over
            event = await reader.read(kind, mutated(dice, payload))
        return [event] if event else []

    return feed


class OddMattermost(MattermostApi):
    """Answers what is asked for with parts missing or of another kind."""

    dice = random.Random(1)

    async def get(self, path: str) -> Any:
        known: Json = {"id": "p", "type": "D", "name": "town", "username": "ada", "is_bot": False}
        known |= {"user_id": "me", "root_id": "", "channel_id": "c"}
        return mutated(self.dice, known) if path.startswith("/posts") else known


def mattermost() -> Feed:
    file = {"id": "f", "name": "a.png", "mime_type": "image/png", "size": 3}
    post: Json = {
        "id": "p",
        "type": "",
        "delete_at": 0,
        "create_at": 1,
        "edit_at": 2,
        "user_id": "7",
        "channel_id": "c",
        "root_id": "",
        "message": "@hermes hello",
        "props": {},
        "metadata": {"files": [file]},
    }
    added = {"emoji_name": "+1", "user_id": "7", "post_id": "p", "create_at": 1}
    reader = PostReader(OddMattermost("http://x", "t"), Person("me", "hermes", True))

    async def feed(dice: random.Random) -> Sequence[Event]:
        # The platform passes over what is unreadable.
        with suppress(*UNREADABLE, MessageGone, Refused):
            if dice.random() < 0.2:
                event = await reader.read_reaction(mutated(dice, added))
            else:
                event = await reader.read(mutated(dice, post), is_new=dice.random() < 0.5)
            return [event] if event else []
        return []

    return feed


def signal() -> Feed:
    mention = {"start": 0, "number": "+1", "uuid": "u", "name": "Ada"}
    quote = {"id": 1, "author": "+2", "text": "before"}
    file = {"id": "f", "contentType": "image/png", "filename": "a.png", "size": 3}
    data = {"timestamp": 1, "message": "\ufffc hi", "mentions": [mention], "quote": quote}
    data |= {"attachments": [file], "groupInfo": {"groupId": "g"}}
    about = {"sourceNumber": "+2", "sourceUuid": "u", "sourceName": "Ada"}
    kinds: list[Json] = [
        {"envelope": {**about, "dataMessage": data}},
        {"envelope": {**about, "dataMessage": {**data, "groupInfo": None}}},
        {"envelope": {**about, "editMessage": {"targetSentTimestamp": 1, "dataMessage": data}}},
    ]

    async def feed(dice: random.Random) -> Sequence[Event]:
        event = read_event(json.dumps(mutated(dice, dice.choice(kinds))), "+1")
        return [event] if event else []

    return feed


def matrix() -> Feed:
    room = MatrixRoom("!r:x.org", ME)
    for each in (ME, ADA):
        room.add_member(each, each[1:4], None)
    reply = {"m.in_reply_to": {"event_id": "$0"}}
    content: Json = {
        "msgtype": "m.text",
        "body": "> <@a:x> b\n\nHermes: hello",
        "format": "x",
        "formatted_body": "matrix.to",
        "m.mentions": {"user_ids": [ME]},
        "m.relates_to": reply,
    }
    keys = {"url": "mxc://x/y", "key": {"k": "k"}, "hashes": {"sha256": "h"}, "iv": "i"}
    info = {"mimetype": "image/png", "size": 3}
    new = {"rel_type": "m.replace", "event_id": "$0"}
    contents: list[Json] = [
        content,
        {**content, "msgtype": "m.image", "file": keys, "info": info, "filename": "a.png"},
        {**content, "m.relates_to": new, "m.new_content": content},
    ]

    async def feed(dice: random.Random) -> Sequence[Event]:
        about = {"type": "m.room.message", "event_id": f"${dice.random()}", "sender": ADA}
        message, event = mutated(dice, {**about, "content": dice.choice(contents)}), None
        with suppress(*UNREADABLE):  # the platform passes it over
            event = read_message(message, message, room, Account(ME, "Hermes"))
        return [event] if event else []

    return feed


def homeassistant() -> Feed:
    state = {"entity_id": "lock.door", "state": "open", "last_changed": "2026-01-01"}
    new = {**state, "attributes": {"friendly_name": "Door", "unit_of_measurement": "m"}}
    context = {"id": "1", "user_id": "u"}
    events: list[Json] = [
        {"event_type": "state_changed", "data": {"new_state": new, "old_state": state}},
        {
            "event_type": "mobile_app_notification_action",
            "data": {"action": "hermes|phone|reply", "reply_text": "yes"},
        },
        {"event_type": "hermes_message", "data": {"text": "hello", "chat": "phone"}},
    ]
    reader = HomeReader(HomeAssistantConfig(watch_all=True, cooldown_s=0))

    async def feed(dice: random.Random) -> Sequence[Event]:
        event = reader.read(mutated(dice, {**dice.choice(events), "context": context}), 1.0)
        listed = reader.catch_up([mutated(dice, new)], "2025", 1.0)
        return [each for each in (event, listed) if each]

    return feed


def email() -> Feed:
    lines = [
        *("From: Ada <ada@example.org>", "Subject: hello", "Message-ID: <1@example.org>"),
        *("Authentication-Results: mx; dkim=pass header.d=example.org", "References: <0@x> <2@x>"),
        *("MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"', "", "--b"),
        *("Content-Type: text/html; charset=utf-8", "", "<p>hello</p><blockquote>q</blockquote>"),
        *("--b", "Content-Type: image/png", "Content-Transfer-Encoding: base64"),
        *('Content-Disposition: attachment; filename="../a.png"', "", "iVBORw0KGgo=", "--b--", ""),
    ]
    odd = ["--b", "Content-Type: message/rfc822", "Content-Type: text/plain; charset=zzz", "> q"]
    odd += [each for each in HOSTILE if isinstance(each, str)]

    async def feed(dice: random.Random) -> Sequence[Event]:
        mail = list(lines)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(mail))
            mail[at : at + dice.randint(0, 1)] = [dice.choice(odd), *dice.choices(mail)]
        raw = bytearray("\n".join(mail).encode(errors="surrogatepass"))
        for _ in range(dice.randint(0, 3)):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        with suppress(*UNREADABLE):  # the platform passes it over
            found = parsed(bytes(raw))
            if found is not None:
                _, address = sender_of(found)
                is_automatic(found, "hermes@example.com")
                is_confirmed(found, address, "mx")
                return [message_of(found, f"1:{dice.random()}", Sender("Ada", address, address))]
        return []

    return feed


def called(platform: HasWebhook, request: Callable[[random.Random], WebhookRequest]) -> Feed:
    """The events of a platform that calls the gateway, which answers it in any case."""

    async def feed(dice: random.Random) -> Sequence[Event]:
        result = await platform.webhook(request(dice))
        assert result.status in (200, 202, 400, 401, 413, 415, 429)
        return result.received.events

    return feed


def whats_app() -> Feed:
    media = {"id": "m", "mime_type": "image/png", "caption": "see", "filename": "a.png"}
    head = {"from": "49151", "id": "wamid.1", "timestamp": "1", "context": {"id": "x"}}
    reply = {"type": "button_reply", "button_reply": {"id": "a", "title": "A"}}
    messages: list[Json] = [
        {**head, "type": "text", "text": {"body": "hello"}},
        {**head, "type": "image", "image": media},
        {**head, "type": "interactive", "interactive": reply},
        {**head, "type": "reaction", "reaction": {"message_id": "x", "emoji": "👍"}},
        {**head, "type": "location", "location": {"latitude": 1.5, "longitude": 2, "name": "x"}},
    ]
    status = {"id": "x", "status": "failed", "errors": [{"code": 131047, "title": "late"}]}
    value = {"metadata": {"phone_number_id": whatsapp.NUMBER}, "contacts": [{"wa_id": "49151"}]}
    secrets = {"token": whatsapp.TOKEN, "app_secret": whatsapp.SECRET, "verify_token": "v"}
    config = {**secrets, "phone_number_id": whatsapp.NUMBER, "base_url": "http://127.0.0.1:9"}

    def request(dice: random.Random) -> WebhookRequest:
        said = {**value, "messages": [dice.choice(messages)], "statuses": [status]}
        told = {"entry": [{"id": "1", "changes": [{"field": "messages", "value": said}]}]}
        return whatsapp.signed(json.dumps(mutated(dice, told)).encode())

    return called(WhatsAppPlatform(WhatsAppConfig.model_validate(config)), request)


def sms() -> Feed:
    fields: Json = {
        "MessageSid": "SM" + "0" * 32,
        "From": "+49151",
        "Body": "hello",
        "NumMedia": "1",
        "MediaUrl0": "https://api.twilio.com/x",
        "MediaContentType0": "image/png",
    }

    def request(dice: random.Random) -> WebhookRequest:
        told = {name: f"{value}" for name, value in mutated(dice, fields).items()}
        return twilio.signed(twilio.URL, {n: v.replace("\ud800", "?") for n, v in told.items()})

    config = twilio.config_of("http://127.0.0.1:9")
    return called(SmsPlatform(config, SystemClock()), request)


def webhook() -> Feed:
    secret = "0123456789abcdef"
    payload = {"action": "opened", "pull_request": {"title": "Mend it", "labels": [{"name": "b"}]}}
    route = {"secret": secret, "prompt": "{pull_request.title} {pull_request.labels.0.name}"}
    config = {"routes": {"r": route}, "rate_limit": 6000}
    platform = WebhookPlatform(WebhookConfig.model_validate(config), SystemClock())
    url = "https://hermes.example.org/webhooks/webhook/r"

    def request(dice: random.Random) -> WebhookRequest:
        body = json.dumps(mutated(dice, payload)).encode()
        headers = {"content-type": "application/json", "x-signature": sign(body, secret)}
        return WebhookRequest("POST", url, {}, headers, body)

    return called(platform, request)


FEEDS: Mapping[str, Callable[[], Feed]] = {
    "telegram": telegram,
    "discord": discord,
    "slack": slack,
    "mattermost": mattermost,
    "signal": signal,
    "matrix": matrix,
    "homeassistant": homeassistant,
    "email": email,
    "sms": sms,
    "whatsapp": whats_app,
    "webhook": webhook,
}


@pytest.mark.timeout(3600 if UPDATES > 1000 else 60)
@pytest.mark.parametrize("name", FEEDS)
async def test_whatever_a_platform_sends_the_next_message_is_stored(
    name: str, database_url: str
) -> None:
    dice, feed, found, count = random.Random(1), FEEDS[name](), list[Event](), 0
    async with Database(database_url, "gateway") as database:
        await prepare(database, migrations)
        metrics = GatewayMetrics.create(Meter(CollectorRegistry()))
        kept = Inbox(database, SystemClock(), metrics, CONFIG, Redactor())
        owner = inbox.Account("default", name, "1")
        for number in range(1, UPDATES + 1):
            found += await feed(dice)
            if found and (len(found) >= TOGETHER or number == UPDATES):
                count += len(found)
                await kept.receive_webhook(owner, Received(found))
                found.clear()
        assert count > UPDATES // 20, "most are not even read"
        sound = MessageEvent("sound", Source(name, "sound", user_id="7"), "hello")
        await kept.receive_webhook(owner, Received([sound]))
        lane = (name, "1", session_key(sound.source), 1)
        waiting = await database.read(lambda conn: inbox.waiting_of_lane(conn, *lane))
        last = waiting[-1].event
        assert isinstance(last, MessageEvent)
        assert last == replace(sound, traceparent=last.traceparent)
