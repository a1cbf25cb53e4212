"""What Twilio tells of a text message: its signature, and its fields."""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

from gateway_service.messages import MessageEvent, RemoteFile, Source, find_kind

NAME = "sms"
MAX_FIELDS = 200
MAX_FILES = 10
_ID = re.compile(r"[A-Za-z0-9]{10,64}")
Fields = Sequence[tuple[str, str]]


def read_fields(body: bytes) -> Fields | None:
    """Return the fields of a form; None if it is none."""
    try:
        return parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=MAX_FIELDS
        )
    except ValueError:
        return None


def is_signed(token: str, url: str, fields: Fields, signature: str) -> bool:
    """Return whether Twilio signed the fields for this address."""
    said = url + "".join(name + value for name, value in sorted(set(fields)))
    digest = hmac.new(token.encode(), said.encode(), hashlib.sha1).digest()
    return hmac.compare_digest(base64.b64encode(digest), signature.encode(errors="replace"))


def read_event(fields: Fields) -> MessageEvent | None:
    """Return a person's message; None for anything else."""
    said = dict(fields)
    event_id, number = said.get("MessageSid", ""), said.get("From", "")
    if not _ID.fullmatch(event_id) or not number or "Body" not in said:
        return None
    source = Source(NAME, chat_id=number, user_id=number, user_name=said.get("ProfileName", ""))
    count = said.get("NumMedia", "0")
    numbers = range(min(int(count), MAX_FILES)) if count.isdecimal() else ()
    files = [_file(said, each) for each in numbers]
    text = said.get("Body", "").replace("\0", "")
    found = tuple(each for each in files if each is not None)
    return MessageEvent(event_id, source, text, files=found, message_id=event_id)


def _file(said: dict[str, str], number: int) -> RemoteFile | None:
    url, mime = said.get(f"MediaUrl{number}", ""), said.get(f"MediaContentType{number}", "")
    return RemoteFile(find_kind(mime), url, mime=mime) if url else None
