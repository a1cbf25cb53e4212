"""What Slack demands of a message, and how it says no."""

import html
import re
from typing import Any

MAX_TEXT = 40_000
MAX_UPDATE = 4_000
MAX_BLOCKS = 50
MAX_SECTION = 3_000
MAX_BUTTONS = 25
MAX_LABEL = 75
MAX_VALUE = 2_000
TIME = re.compile(r"\d{10}\.\d{6}")
EVERYBODY = re.compile(r"@(channel|everyone|here)\b")
REFERENCE = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")

_KEYS = {
    "section": {"type", "block_id", "text", "expand", "fields", "accessory"},
    "actions": {"type", "block_id", "elements"},
    "button": {"type", "action_id", "text", "value", "style", "url"},
    "mrkdwn": {"type", "text", "verbatim"},
    "plain_text": {"type", "text", "emoji"},
}


class Refused(Exception):
    """What Slack answers with an error."""

    def __init__(self, error: str, **more: object) -> None:
        super().__init__(error)
        self.body: dict[str, Any] = {"ok": False, "error": error, **more}


def checked(fields: dict[str, Any], *, is_update: bool = False) -> tuple[str, list[str]]:
    """The visible text of a message and its buttons' values, or what Slack says of a bad one."""
    text, blocks = fields.get("text", ""), fields.get("blocks", [])
    if not text.strip() and not blocks:
        raise Refused("no_text")
    if _units(text) > (MAX_UPDATE if is_update else MAX_TEXT):
        raise Refused("msg_too_long")
    if len(blocks) > MAX_BLOCKS:
        raise Refused("invalid_blocks")
    shown, values = list[str](), list[str]()
    for block in blocks:
        match _checked(block)["type"]:
            case "section":
                shown.append(_text(block["text"], "mrkdwn", MAX_SECTION))
                is_verbatim = block["text"].get("verbatim", False)
                assert is_verbatim or not EVERYBODY.search(shown[-1]), "everybody is notified"
            case "actions":
                values += _buttons(block["elements"])
            case _:
                raise Refused("invalid_blocks")
    return visible("".join(shown) if blocks else text), values


def visible(mrkdwn: str) -> str:
    """What people see of a text; the tests forbid mentions that nobody asked for."""
    for target, _ in REFERENCE.findall(mrkdwn):
        assert target[0] not in "@#!", f"{target} is a mention"
    return html.unescape(REFERENCE.sub(lambda found: found[2] or found[1], mrkdwn))


def _buttons(elements: list[dict[str, Any]]) -> list[str]:
    if not 1 <= len(elements) <= MAX_BUTTONS:
        raise Refused("invalid_blocks")
    if len({_checked(each)["action_id"] for each in elements}) < len(elements):
        raise Refused("invalid_blocks", detail="action_id is not unique")
    for each in elements:
        _text(each["text"], "plain_text", MAX_LABEL)
        if each["type"] != "button" or not len(each["value"]) <= MAX_VALUE:
            raise Refused("invalid_blocks")
    return [each["value"] for each in elements]


def _text(found: dict[str, Any], kind: str, limit: int) -> str:
    text = _checked(found)["text"]
    if found["type"] != kind or not 1 <= _units(text) <= limit:
        raise Refused("invalid_blocks", detail=f"{kind} of {_units(text)}")
    return text


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    if unknown := found.keys() - _KEYS.get(found["type"], set()):
        raise Refused("invalid_blocks", detail=f"{found['type']}: {unknown}")
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
