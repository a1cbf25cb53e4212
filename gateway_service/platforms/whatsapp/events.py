"""Converts WhatsApp's webhooks to events."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from gateway_service.messages import (
    ButtonPress,
    DeliveryFailure,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
)
from gateway_service.platforms.base import Json, Received, passing_over
from gateway_service.platforms.whatsapp.api import NAME, error_of
from services.validation import object_of

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_FILES: Mapping[str, FileKind] = {
    "image": FileKind.IMAGE,
    "sticker": FileKind.IMAGE,
    "audio": FileKind.AUDIO,
    "video": FileKind.VIDEO,
    "document": FileKind.DOCUMENT,
}


def read_notification(body: Json, phone_number_id: str) -> Received:
    """Return what happened to a phone number; raises UNREADABLE."""
    events: list[Event] = []
    failures: list[DeliveryFailure] = []
    for change in (change for entry in body["entry"] for change in entry["changes"]):
        value = change["value"]
        if change["field"] != "messages" or value["metadata"]["phone_number_id"] != phone_number_id:
            continue
        named = (each for each in value.get("contacts") or () if "wa_id" in each)
        names = {each["wa_id"]: object_of(each.get("profile")).get("name") or "" for each in named}
        events += _read_each(value.get("messages") or (), partial(_read_message, names=names))
        failures += _read_each(value.get("statuses") or (), _read_failure)
    return Received(events, failures=failures)


def _read_each(sent: Iterable[Json], read: Callable[[Json], _T | None]) -> Iterator[_T]:
    """Yield what can be read; the rest of a notification is not lost with it."""
    for each in sent:
        with passing_over("something of whatsapp"):
            if (found := read(each)) is not None:
                yield found


def _read_failure(status: Json) -> DeliveryFailure | None:
    if status["status"] != "failed":
        return None
    error = status["errors"][0]
    why = error_of(error["code"], error.get("title", "")).message
    _log.error("a message of whatsapp was not delivered: %s", why)
    return DeliveryFailure(str(status["id"]), why)


def _read_message(message: Json, names: Mapping[str, str]) -> Event | None:
    message_id, sender, kind = message["id"], message["from"], message["type"]
    source = Source(NAME, sender, "", sender, names.get(sender, ""))
    if message.get("group_id") or kind in ("system", "revoke"):
        return None
    if edit := message.get("edit"):
        message = {**message, **edit["message"]}
        kind = message["type"]
    if kind == "interactive":
        chosen = message[kind].get("button_reply") or message[kind]["list_reply"]
        return ButtonPress(message_id, source, message_id, chosen["id"])
    if kind == "reaction":
        emoji = message[kind].get("emoji")
        return Reaction(message_id, source, message[kind]["message_id"], emoji) if emoji else None
    context, files = message.get("context", {}), tuple[RemoteFile, ...]()
    is_forwarded = bool(context.get("forwarded") or context.get("frequently_forwarded"))
    text = message.get("text", {}).get("body", "") or message.get("button", {}).get("text", "")
    if kind in _FILES:
        media = message[kind]
        found = FileKind.VOICE if media.get("voice") else _FILES[kind]
        named = media["id"], media.get("filename", ""), media.get("mime_type", "")
        text = media.get("caption", "")
        files = (RemoteFile(found, *named, is_forwarded=is_forwarded),)
    elif kind == "location":
        place = message[kind]
        about = ", ".join(place[name] for name in ("name", "address") if place.get(name))
        text = f"Location: {place['latitude']}, {place['longitude']} {about}".rstrip()
    quotes = (Quote(text, "", is_forwarded=True),) if is_forwarded and text else ()
    return MessageEvent(
        message_id,
        source,
        "" if quotes else text,  # forwarded words are no command
        replies_to=context.get("id", ""),
        quotes=quotes,
        files=files,
        message_id=message_id,
        edits=edit["original_message_id"] if edit else "",
        joint="\n" if files or is_forwarded else None,  # albums and forwards come one by one
    )
