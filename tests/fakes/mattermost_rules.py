"""Whom a Mattermost server knows, and how it refuses requests."""

from collections.abc import Mapping
from typing import Any

TOKEN = "bot-token"
BOT, CHANNEL = "bot", "town"
MAX_CHARS = 16_383
DEDUPLICATION_S = 30.0
BLANK: Mapping[str, Any] = {
    "edit_at": 0,
    "delete_at": 0,
    "root_id": "",
    "type": "",
    "props": {},
    "metadata": {},
}
USERS: Mapping[str, Mapping[str, Any]] = {
    BOT: {"id": BOT, "username": "hermes", "is_bot": True},
    "7": {"id": "7", "username": "ada"},
    "8": {"id": "8", "username": "bob"},
    "9": {"id": "9", "username": "robot", "is_bot": True},
}


class Refused(Exception):
    """What the server answers with an error."""

    def __init__(self, status: int, error_id: str, **headers: str) -> None:
        super().__init__(error_id)
        self.status, self.headers = status, {k.replace("_", "-"): v for k, v in headers.items()}
        self.body = {"id": error_id, "message": f"Refused: {error_id}.", "status_code": status}


REFUSALS = {
    "limited": Refused(429, "api.rate_limit", X_Ratelimit_Reset="1"),
    "forbidden": Refused(403, "api.context.permissions.app_error"),
    "broken": Refused(500, "api.deduplicate_create_post.pending"),
}
