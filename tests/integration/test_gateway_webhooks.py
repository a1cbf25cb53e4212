"""Platforms that call the gateway's port, with the real agent behind it."""

import io
import json
from pathlib import Path

from tests.fakes import slack as slack_fake
from tests.fakes import whatsapp as whatsapp_fake
from tests.fakes.model import answers
from tests.integration.http_parts import Api, api, until


async def test_slack_calls_and_is_answered(tmp_path: Path) -> None:
    async with (
        slack_fake.fake_slack() as slack,
        api(
            tmp_path,
            answers({"text": "re: {user}"}),
            SLACK_BOT_TOKEN=slack_fake.TOKEN,
            SLACK_SIGNING_SECRET=slack_fake.SECRET,
            SLACK_BASE_URL=slack.url,
            SLACK_ALLOWED_USERS="U7",
        ) as running,
    ):
        event = {"type": "message", "channel": "D1", "channel_type": "im", "user": "U7"}
        body = json.dumps(slack_fake.callback({**event, "text": "hello", "ts": "1.1"})).encode()
        headers = {"Content-Type": "application/json", **slack_fake.signed(body)}
        for _ in range(3):  # as Slack does where an answer is late
            assert await _post(running, "slack", body, headers) == 200
        assert await _post(running, "slack", b"[]", headers) == 401
        await slack.until(lambda: slack.texts("D1") == ["re: hello"])


async def test_whatsapp_calls_and_is_answered(tmp_path: Path) -> None:
    async with (
        whatsapp_fake.fake_whatsapp() as whatsapp,
        api(
            tmp_path,
            answers({"text": "re: {user}"}),
            WHATSAPP_TOKEN=whatsapp_fake.TOKEN,
            WHATSAPP_PHONE_NUMBER_ID=whatsapp_fake.NUMBER,
            WHATSAPP_APP_SECRET=whatsapp_fake.SECRET,
            WHATSAPP_VERIFY_TOKEN=whatsapp_fake.VERIFY,
            WHATSAPP_BASE_URL=whatsapp.url,
            WHATSAPP_ALLOWED_USERS="+49 1511",
        ) as running,
    ):
        handshake = {"hub.mode": "subscribe", "hub.challenge": "42"}
        handshake |= {"hub.verify_token": whatsapp_fake.VERIFY}
        async with running.http.get("/webhooks/whatsapp", params=handshake) as response:
            assert await response.text() == "42"
        await whatsapp.say("491511", "hello")
        call = await whatsapp.next_call()
        assert await _post(running, "whatsapp", call.body, dict(call.headers)) == 200
        whatsapp.confirm()
        chat = whatsapp.chats["491511"]
        await until(lambda: [shown.text for shown in chat.values()] == ["re: hello"])
        states = "SELECT state FROM outbox WHERE platform = 'whatsapp'"
        await running.running.until_rows("gateway", states, [("SENT",)])
        failed = {"id": next(iter(chat)), "status": "failed", "errors": [{"code": 131047}]}
        whatsapp.call({"statuses": [failed]})
        call = await whatsapp.next_call()
        for _ in range(2):
            assert await _post(running, "whatsapp", call.body, dict(call.headers)) == 200
        await running.running.until_rows("gateway", states, [("ABANDONED",)])
        told = "SELECT payload FROM outbox WHERE platform = 'cli'"
        [[notice]] = await running.running.rows("gateway", told)
        assert "Not delivered to whatsapp:491511 (WhatsApp delivers" in notice
        assert "re: hello" in notice


async def _post(running: Api, platform: str, body: bytes, headers: dict[str, str]) -> int:
    path = f"/webhooks/{platform}"
    async with running.http.post(path, data=io.BytesIO(body), headers=headers) as response:
        return response.status
