"""SMS through the HTTP port to the real agent, and back through Twilio's API."""

from pathlib import Path

import aiohttp

from gateway_service.platforms.base import WebhookRequest
from tests.fakes.model import answers, fake_model
from tests.fakes.twilio import NUMBER, SID, TOKEN, fake_twilio
from tests.integration.gateway_parts import hermes
from tests.integration.http_parts import until_served
from tests.support.ports import free_port

ADA = "+491511234567"
PUBLIC = "https://hermes.example.org"


async def _post(http: aiohttp.ClientSession, url: str, call: WebhookRequest) -> tuple[int, str]:
    """Make a call of Twilio; return the answer."""
    async with http.post(url, data=call.body, headers=call.headers) as answer:
        return answer.status, await answer.text()


async def test_a_text_message_is_answered(tmp_path: Path) -> None:
    port = free_port()
    async with fake_twilio() as twilio, fake_model(answers({"text": "**Hello**!"})) as model:
        environ = {
            "TWILIO_ACCOUNT_SID": SID,
            "TWILIO_AUTH_TOKEN": TOKEN,
            "TWILIO_PHONE_NUMBER": NUMBER,
            "SMS_BASE_URL": twilio.url,
            "SMS_ALLOWED_USERS": ADA,
            "API_SERVER_PORT": str(port),
            "API_SERVER_PUBLIC_URL": PUBLIC,
        }
        async with (
            hermes(tmp_path, model.url, environ=environ) as running,
            aiohttp.ClientSession() as http,
        ):
            await until_served(port)
            url = f"http://127.0.0.1:{port}/webhooks/sms"
            for number, text in ((ADA, "hi"), ("+15559999999", "let me in")):
                call = twilio.event(f"{PUBLIC}/webhooks/sms", text, number)
                assert await _post(http, url, call) == (200, "<Response/>")
                assert await _post(http, url, call) == (200, "<Response/>")
            await twilio.until(lambda: len(twilio.sent) == 1)
            assert [*twilio.sent.values()] == [(ADA, "Hello!")]
            states = "SELECT state FROM inbox ORDER BY sequence"
            await running.until_rows("gateway", states, [("CLOSED",), ("IGNORED",)])
            assert len(model.bodies) == 1
