"""Mattermost's slash command: the server calls the gateway with what a person tells it."""

import hashlib
import hmac
import re
from urllib.parse import parse_qsl

import msgspec

from gateway_service.messages import MessageEvent, Source
from gateway_service.platforms.base import (
    UNREADABLE,
    Received,
    WebhookRequest,
    WebhookResult,
    command_in,
)
from gateway_service.platforms.mattermost.config import MattermostConfig
from gateway_service.platforms.mattermost.platform import MattermostPlatform
from gateway_service.platforms.mattermost.posts import NAME

MAX_FIELDS = 50
_DIRECT = re.compile(r"\w{26}__\w{26}")
"""The name of a direct chat: the ids of both."""


class MattermostWebhook(MattermostPlatform):
    """A bot whose slash command calls us."""

    def __init__(self, config: MattermostConfig) -> None:
        super().__init__(config.url, config.token.get_secret_value())
        self._secret = config.command_token.get_secret_value()

    async def webhook(self, request: WebhookRequest) -> WebhookResult:
        given = request.headers.get("authorization", "").removeprefix("Token ")
        if not hmac.compare_digest(given.encode(errors="replace"), self._secret.encode()):
            return WebhookResult(401, b"the token is wrong")
        try:
            event = _read(dict(parse_qsl(request.body.decode(), max_num_fields=MAX_FIELDS)))
        except UNREADABLE:
            return WebhookResult(400, b"not a slash command of Mattermost")
        shown = msgspec.json.encode({"response_type": "ephemeral", "text": event.text})
        return WebhookResult(200, shown, "application/json", Received((event,)))


def make_mattermost(config: MattermostConfig) -> MattermostPlatform:
    """Return the account: Mattermost calls it only if it has a slash command."""
    if config.command_token.get_secret_value():
        return MattermostWebhook(config)
    return MattermostPlatform(config.url, config.token.get_secret_value())


def _read(said: dict[str, str]) -> MessageEvent:
    thread_id, channel = said.get("root_id", ""), said["channel_name"]
    is_direct = _DIRECT.fullmatch(channel) is not None
    source = Source(
        NAME,
        said["channel_id"],
        thread_id,
        said["user_id"],
        said["user_name"],
        chat_type="dm" if is_direct else "thread" if thread_id else "group",
        chat_name="" if is_direct else channel,
    )
    event_id = hashlib.sha256(said["trigger_id"].encode()).hexdigest()
    return MessageEvent(event_id, source, command_in(said.get("text", "")))
