"""What the Bot API demands of a message, and how it says no."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

TAGS = {"b", "i", "s", "u", "a", "code", "pre", "blockquote"}
MAX_UNITS = {"text": 4096, "caption": 1024}
MAX_BUTTON_BYTES = 64


class Refused(Exception):
    """What the Bot API answers with an error."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.body["parameters"] = parameters


def checked(fields: dict[str, str], name: str = "text") -> tuple[str, list[str]]:
    """The visible text and the buttons' data, or what Telegram says of a bad request."""
    text = fields.get(name, "")
    if fields.get("parse_mode") == "HTML":
        reader = _Formatting()
        reader.feed(text)
        if reader.open:
            raise Refused(400, "Bad Request: can't parse entities: a tag is not closed")
        text = unescape(re.sub(r"<[^>]*>", "", text))
    if name == "text" and not text.strip():
        raise Refused(400, "Bad Request: message text is empty")
    if len(text.encode("utf-16-le")) // 2 > MAX_UNITS[name]:
        raise Refused(400, "Bad Request: message is too long")
    keyboard = json.loads(fields.get("reply_markup", "{}")).get("inline_keyboard", [])
    buttons = [button["callback_data"] for row in keyboard for button in row]
    if any(not 1 <= len(data.encode()) <= MAX_BUTTON_BYTES for data in buttons):
        raise Refused(400, "Bad Request: BUTTON_DATA_INVALID")
    return text, buttons


def mentions(text: str) -> list[dict[str, Any]]:
    """What Telegram takes for mentions in a text, counted in UTF-16 code units."""
    return [
        {
            "type": "mention",
            "offset": len(text[: found.start()].encode("utf-16-le")) // 2,
            "length": len(found[0]),
        }
        for found in re.finditer(r"(?<![\w/])@[A-Za-z]\w{3,31}(?![\w.])", text)
    ]


class _Formatting(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in TAGS:
            raise Refused(400, f"Bad Request: can't parse entities: unsupported start tag {tag}")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise Refused(400, f"Bad Request: can't parse entities: unexpected end tag {tag}")
