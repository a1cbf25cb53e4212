"""Webhooks of the Bot API: while one is set, updates are sent there and cannot be fetched."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gateway_service.platforms.base import WebhookRequest
from tests.fakes.telegram_rules import Refused

METHODS = ("setWebhook", "deleteWebhook", "getWebhookInfo")


class Webhook:
    """The bot's webhook."""

    def __init__(self) -> None:
        self.url = self.secret = self.problem = ""

    def answer(self, method: str, fields: Mapping[str, str]) -> object:
        """Set, delete or describe the webhook."""
        if method == "getWebhookInfo":
            about = {"url": self.url, "has_custom_certificate": False}
            failed = {"last_error_date": 1, "last_error_message": self.problem}
            return {**about, "pending_update_count": 3, **(failed if self.problem else {})}
        self.url, self.secret = fields.get("url", ""), fields.get("secret_token", "")
        if method == "setWebhook":
            if not self.url.startswith("https://"):
                raise Refused(400, "Bad Request: bad webhook: An HTTPS URL must be provided")
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", self.secret)
            assert "message" in json.loads(fields["allowed_updates"])
            assert fields["max_connections"] == "1"
        return True

    def check(self) -> None:
        """Refuse to give updates."""
        if self.url:
            raise Refused(409, "Conflict: can't use getUpdates method while webhook is active")

    def call(self, update: dict[str, Any]) -> WebhookRequest:
        """Return the call for an update."""
        headers = {"content-type": "application/json"}
        headers["x-telegram-bot-api-secret-token"] = self.secret
        return WebhookRequest("POST", self.url, {}, headers, json.dumps(update).encode())
