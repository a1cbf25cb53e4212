"""Slack's Events API over HTTP, for those who do not use Socket Mode."""

import hashlib
import hmac
import re
from typing import Any
from urllib.parse import parse_qs

import msgspec

from gateway_service.platforms.base import Received, WebhookRequest, WebhookResult
from gateway_service.platforms.slack.config import SlackConfig
from gateway_service.platforms.slack.platform import SlackPlatform
from services.clock import Clock, SystemClock

WINDOW_S = 300.0
"""How old a signature may be."""


class SlackWebhook(SlackPlatform):
    """A Slack app that Slack calls."""

    def __init__(self, config: SlackConfig, clock: Clock) -> None:
        super().__init__(config, clock)
        self._secret = config.signing_secret.get_secret_value().encode()

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        if not self._is_signed(request):
            return WebhookResult(401, b"the signature is wrong or old")
        try:
            kind, payload = _parse(request)
            if payload.get("type") == "url_verification":
                return WebhookResult(body=str(payload["challenge"]).encode())
            event = await self._read(kind, payload)
        except (ValueError, LookupError, AttributeError):
            return WebhookResult(400, b"not a request of Slack")
        return WebhookResult(received=Received((event,) if event is not None else ()))

    def _is_signed(self, request: WebhookRequest) -> bool:
        sent_at = request.headers.get("x-slack-request-timestamp", "")
        given = request.headers.get("x-slack-signature", "").encode()
        if not re.fullmatch(r"[0-9]{1,12}", sent_at):
            return False
        if abs(self._clock.now().timestamp() - int(sent_at)) > WINDOW_S:
            return False
        signed = b"v0:%b:%b" % (sent_at.encode(), request.body)
        wanted = f"v0={hmac.new(self._secret, signed, hashlib.sha256).hexdigest()}"
        return hmac.compare_digest(given, wanted.encode())


def make_slack(config: SlackConfig) -> SlackPlatform:
    """Return the account: Slack calls it only without Socket Mode."""
    kind = SlackPlatform if config.app_token.get_secret_value() else SlackWebhook
    return kind(config, SystemClock())


def _parse(request: WebhookRequest) -> tuple[str, dict[str, Any]]:
    """Return the kind of a request, as Socket Mode names it, and its payload."""
    if request.headers.get("content-type", "").startswith("application/json"):
        return "events_api", msgspec.json.decode(request.body)
    fields = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    if "payload" in fields:
        return "interactive", msgspec.json.decode(fields["payload"])
    return "slash_commands", fields
