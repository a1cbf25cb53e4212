"""What WhatsApp demands of a message, and how it says no."""

from typing import Any

MAX_TEXT, MAX_BODY, MAX_CAPTION = 4096, 1024, 1024
CAPTIONED = ("image", "video", "document")


class Refused(Exception):
    """What the Graph API answers with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        about = {"type": "OAuthException", "code": code, "fbtrace_id": "x"}
        self.body: dict[str, Any] = {"error": {"message": f"(#{code}) {message}", **about}}


def checked(fields: dict[str, Any]) -> tuple[str, list[str]]:
    """The visible text of a message and its choices' ids, or what WhatsApp says of a bad one."""
    kind = fields.get("type", "")
    if fields.get("messaging_product") != "whatsapp" or not fields.get("to", "").isdigit():
        raise Refused(100, "Invalid parameter")
    about = fields[kind]
    if kind == "text":
        return _within(about["body"], MAX_TEXT), []
    if kind == "template":
        [body] = about["components"]
        text = _within(body["parameters"][0]["text"], MAX_BODY)
        if about["language"] != {"code": "en_US"} or "\n" in text:
            raise Refused(132000, "Number of parameters does not match")
        return f"{about['name']}: {text}", []
    if kind == "interactive":
        return _within(about["body"]["text"], MAX_BODY), _choices(about)
    if kind not in (*CAPTIONED, "audio") or ("caption" in about and kind not in CAPTIONED):
        raise Refused(131051, "Unsupported message type")
    return _within(about.get("caption", "?"), MAX_CAPTION).removeprefix("?"), []


def _choices(about: dict[str, Any]) -> list[str]:
    action = about["action"]
    if about["type"] == "button":
        replies = [each["reply"] for each in action["buttons"]]
        titles = [_within(each["title"], 20) for each in replies]
        most = 3
    else:
        _within(action["button"], 20)
        replies = [row for section in action["sections"] for row in section["rows"]]
        titles = [_within(each["title"], 24) for each in replies]
        for each in replies:
            _within(each.get("description", "?"), 72)
        most = 10
    ids = [_within(each["id"], 200) for each in replies]
    if not 1 <= len(ids) <= most or len({*ids}) < len(ids):
        raise Refused(131009, "Parameter value is not valid")
    if about["type"] == "button" and len({*titles}) < len(titles):
        raise Refused(131009, "Duplicated title")
    return ids


def _within(text: str, limit: int) -> str:
    if not 1 <= len(text.encode("utf-16-le")) // 2 <= limit or not text.strip():
        raise Refused(131009, "Parameter value is not valid")
    return text
