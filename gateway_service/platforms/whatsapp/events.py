"""Converts WhatsApp's webhooks to events."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct, field

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
from gateway_service.platforms.base import Received
from gateway_service.platforms.whatsapp.api import NAME, error_of
from services.validation import decode

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class Text(Struct, frozen=True):
    """Written words."""

    body: str = ""


class Context(Struct, frozen=True):
    """What a message replies to, or whether it was forwarded."""

    id: str = ""
    forwarded: bool = False
    frequently_forwarded: bool = False


class Media(Struct, frozen=True):
    """A file."""

    id: str
    mime_type: str = ""
    caption: str = ""
    filename: str = ""
    voice: bool = False


class Reply(Struct, frozen=True):
    """A chosen button or row."""

    id: str


class Interactive(Struct, frozen=True):
    """A choice."""

    button_reply: Reply | None = None
    list_reply: Reply | None = None


class Emoji(Struct, frozen=True):
    """A reaction; without an emoji it was taken back."""

    message_id: str
    emoji: str = ""


class Location(Struct, frozen=True):
    """A place."""

    latitude: float
    longitude: float
    name: str = ""
    address: str = ""


class Message(Struct, frozen=True):
    """A person's message."""

    id: str
    sender: str = field(name="from")
    type: str
    group_id: str = ""
    """Empty in chats of two."""
    text: Text = Text()
    context: Context = Context()
    interactive: Interactive = Interactive()
    location: Location | None = None
    reaction: Emoji | None = None
    image: Media | None = None
    audio: Media | None = None
    video: Media | None = None
    document: Media | None = None
    sticker: Media | None = None


class Failure(Struct, frozen=True):
    """Why a message was not delivered."""

    code: int
    title: str = ""


class Status(Struct, frozen=True):
    """What became of a message of ours."""

    id: str
    status: str
    errors: tuple[Failure, ...] = ()


class Profile(Struct, frozen=True):
    """What a person is called."""

    name: str = ""


class Contact(Struct, frozen=True):
    """A person."""

    wa_id: str = ""
    profile: Profile = Profile()


class Metadata(Struct, frozen=True):
    """The phone number that was written to."""

    phone_number_id: str


class Value(Struct, frozen=True):
    """News of a phone number."""

    metadata: Metadata
    contacts: tuple[Contact, ...] = ()
    messages: tuple[msgspec.Raw, ...] = ()
    statuses: tuple[msgspec.Raw, ...] = ()


class Change(Struct, frozen=True):
    """News of one kind."""

    field: str
    value: msgspec.Raw


class Entry(Struct, frozen=True):
    """News of an account."""

    changes: tuple[Change, ...] = ()


class Notification(Struct, frozen=True):
    """The body of a call."""

    entry: tuple[Entry, ...] = ()


_FILES: Mapping[str, FileKind] = {
    "image": FileKind.IMAGE,
    "sticker": FileKind.IMAGE,
    "audio": FileKind.AUDIO,
    "video": FileKind.VIDEO,
    "document": FileKind.DOCUMENT,
}


def read_notification(body: bytes, phone_number_id: str) -> Received:
    """Return what happened to a phone number, or raise msgspec.DecodeError."""
    events: list[Event] = []
    failures: list[DeliveryFailure] = []
    for entry in decode(body, Notification).entry:
        for change in entry.changes:
            if change.field == "messages":
                value = decode(change.value, Value)
                if value.metadata.phone_number_id == phone_number_id:
                    events += _read_messages(value)
                    failures += _read_failures(value)
    return Received(events, failures=failures)


def _read_failures(value: Value) -> Iterator[DeliveryFailure]:
    for status in _decode_each(value.statuses, Status):
        for failure in status.errors[:1] if status.status == "failed" else ():
            why = error_of(failure.code, failure.title).message
            _log.error("a message of whatsapp was not delivered: %s", why)
            yield DeliveryFailure(status.id, why)


def _read_messages(value: Value) -> Iterator[Event]:
    names = {each.wa_id: each.profile.name for each in value.contacts}
    for message in _decode_each(value.messages, Message):
        source = Source(NAME, message.sender, "", message.sender, names.get(message.sender, ""))
        if (event := _read_message(message, source)) is not None:
            yield event


def _decode_each(raws: Iterable[msgspec.Raw], kind: type[_T]) -> Iterator[_T]:
    """Yield what can be read; the rest of a notification is not lost with it."""
    for raw in raws:
        try:
            yield decode(raw, kind)
        except msgspec.DecodeError as error:
            _log.error("something of whatsapp cannot be read and is passed over: %s", error)


def _read_message(message: Message, source: Source) -> Event | None:
    if message.group_id:
        return None
    chosen = message.interactive.button_reply or message.interactive.list_reply
    if chosen is not None:
        return ButtonPress(message.id, source, message.id, chosen.id)
    if (reaction := message.reaction) is not None and reaction.emoji:
        return Reaction(message.id, source, reaction.message_id, reaction.emoji)
    if message.type in ("reaction", "system"):
        return None
    kind = _FILES.get(message.type)
    media: Media | None = getattr(message, message.type) if kind is not None else None
    text, files, context = message.text.body, (), message.context
    is_forwarded = context.forwarded or context.frequently_forwarded
    if kind is not None and media is not None:
        kind = FileKind.VOICE if media.voice else kind
        text = media.caption
        files = (
            RemoteFile(
                *(kind, media.id, media.filename, media.mime_type), is_forwarded=is_forwarded
            ),
        )
    elif (place := message.location) is not None:
        about = ", ".join(filter(None, (place.name, place.address)))
        text = f"Location: {place.latitude}, {place.longitude} {about}".rstrip()
    quotes = (Quote(text, "", is_forwarded=True),) if is_forwarded and text else ()
    return MessageEvent(
        message.id,
        source,
        "" if quotes else text,  # forwarded words are no command
        replies_to=context.id,
        quotes=quotes,
        files=files,
        message_id=message.id,
        joint="\n" if files or is_forwarded else None,  # albums and forwards come one by one
    )
