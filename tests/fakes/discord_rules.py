"""What Discord demands of requests, and how it refuses them."""

import base64
import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aiohttp import BodyPartReader, web

BOT = "424242424242424242"
TOKEN = f"{base64.b64encode(BOT.encode()).decode().rstrip('=')}.fake00.{'x' * 27}"
EPOCH_MS = 1_420_070_400_000
MAX_CHARS = 2000
MAX_NONCE = 25
MAX_FILE_BYTES = 10 * 1024 * 1024
SUPPRESS_EMBEDS, EPHEMERAL, VOICE = 4, 64, 8192

_FIELDS = {
    *("content", "nonce", "enforce_nonce", "tts", "flags", "allowed_mentions", "components"),
    *("attachments", "message_reference", "embeds", "sticker_ids"),
}
_counter = count()


class Refused(Exception):
    """What Discord answers with an error."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message, **more}

    def response(self) -> web.Response:
        headers = {"Via": "1.1 google"}
        if self.status == 429:
            headers |= {"Retry-After": "1", "X-RateLimit-Scope": "user"}
        return web.json_response(self.body, status=self.status, headers=headers)


UNAUTHORIZED = Refused(401, 0, "401: Unauthorized")
UNKNOWN_CHANNEL = Refused(404, 10003, "Unknown Channel")
UNKNOWN_MESSAGE = Refused(404, 10008, "Unknown Message")
UNKNOWN_INTERACTION = Refused(404, 10062, "Unknown interaction")
REFUSALS = {
    "limited": Refused(429, 0, "You are being rate limited.", retry_after=1.0, **{"global": False}),
    "forbidden": Refused(403, 50013, "Missing Permissions"),
    "direct closed": Refused(403, 50007, "Cannot send messages to this user"),
    "broken": Refused(502, 0, "502: Bad Gateway"),
}


def new_id(age_s: float = 0) -> str:
    """An id like Discord's, which grows with time."""
    now_ms = int((time.time() - age_s) * 1000) - EPOCH_MS
    return str((now_ms << 22) + next(_counter) % 4_194_304)


@dataclass(frozen=True, slots=True)
class Posted:
    """A message as it was asked for."""

    content: str | None
    nonce: str
    buttons: list[dict[str, Any]] | None
    files: list[tuple[str, bytes]]
    flags: int
    pings: bool


async def posted(request: web.Request) -> Posted:
    """What a request asks for, or what Discord says of it."""
    fields, files = await _read(request)
    if unknown := set(fields) - _FIELDS:
        raise AssertionError(f"Discord knows no {unknown} in a message")
    content, nonce = fields.get("content"), str(fields.get("nonce") or "")
    if len(content or "") > MAX_CHARS:
        raise _invalid("content", "Must be 2000 or fewer in length.")
    if len(nonce) > MAX_NONCE:
        raise _invalid("nonce", "Must be 25 or fewer in length.")
    if request.method == "POST" and not (content or "").strip() and not files:
        raise Refused(400, 50006, "Cannot send an empty message")
    if any(len(data) > MAX_FILE_BYTES for _, data in files):
        raise Refused(413, 40005, "Request entity too large")
    rows = fields.get("components")
    return Posted(
        content,
        nonce if fields.get("enforce_nonce") else "",
        None if rows is None else _buttons(rows),
        files,
        int(fields.get("flags", 0)),
        fields.get("allowed_mentions", {}).get("parse") != [],
    )


async def _read(request: web.Request) -> tuple[dict[str, Any], list[tuple[str, bytes]]]:
    if request.content_type != "multipart/form-data":
        return await request.json(), []
    fields: dict[str, Any] = {}
    files: list[tuple[str, bytes]] = []
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        data = bytes(await part.read())
        if part.name == "payload_json":
            fields = json.loads(data)
        else:
            files.append((part.filename or "", data))
    named = [str(each["id"]) for each in fields.get("attachments", [])]
    assert named == [str(index) for index in range(len(files))], "each file has its description"
    return fields, files


def _buttons(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    buttons = [button for row in rows for button in row["components"]]
    if len(rows) > 5 or any(row["type"] != 1 or len(row["components"]) > 5 for row in rows):
        raise _invalid("components", "Must be 5 or fewer in length.")
    for button in buttons:
        if not 1 <= len(button["custom_id"]) <= 100 or not 1 <= len(button["label"]) <= 80:
            raise _invalid("components", "Must be between 1 and 100 in length.")
    if len({button["custom_id"] for button in buttons}) < len(buttons):
        raise _invalid("components", "Component custom id cannot be duplicated")
    return buttons


def checked_commands(commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slash commands, or what Discord says of them."""
    names = [each["name"] for each in commands]
    if len(names) > 100 or len(set(names)) < len(names):
        raise _invalid("commands", "Application command names must be unique")
    for each in commands:
        if not 1 <= len(each["name"]) <= 32 or each["name"] != each["name"].lower():
            raise _invalid("name", "Command name is invalid")
        if not 1 <= len(each["description"]) <= 100:
            raise _invalid("description", "Must be between 1 and 100 in length.")
    return [{"id": new_id(), "type": 1, "version": "1", **each} for each in commands]


def _invalid(name: str, message: str) -> Refused:
    errors = {name: {"_errors": [{"code": "BASE_TYPE_BAD_LENGTH", "message": message}]}}
    return Refused(400, 50035, "Invalid Form Body", errors=errors)


@dataclass(slots=True)
class Shown:
    """A message of the bot as people see it now."""

    id: str
    text: str
    buttons: list[str]
    labels: list[str] = field(default_factory=list[str])
    versions: list[str] = field(default_factory=list[str])
    files: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])


@dataclass(slots=True)
class Buckets:
    """The rate limits of routes, told in headers and enforced."""

    limit: int = 50
    window_s: float = 1.0
    used: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    exceeded: int = 0
    in_all: int = 50
    """The limit of all requests together in a second."""

    def take(self, key: str, now: float) -> dict[str, str]:
        """Headers of an answer; refuses a request too many."""
        recent = self.used["all"] = [each for each in self.used["all"] if now - each < 1]
        if len(recent) >= self.in_all:
            self.exceeded += 1
            raise Refused(
                429, 0, "You are being rate limited.", retry_after=1.0, **{"global": True}
            )
        recent.append(now)
        times = self.used[key] = [each for each in self.used[key] if now - each < self.window_s]
        if len(times) >= self.limit:
            self.exceeded += 1
            after = round(times[0] + self.window_s - now, 3)
            raise Refused(429, 0, "You are being rate limited.", retry_after=after)
        times.append(now)
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.limit - len(times)),
            "X-RateLimit-Reset-After": f"{times[0] + self.window_s - now:.3f}",
            "X-RateLimit-Bucket": str(abs(hash(key.partition(" ")[0]))),
        }
