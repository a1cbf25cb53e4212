"""What Slack sends: the parts that we read."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct

from services.validation import convert, lenient

_T = TypeVar("_T")


class Envelope(Struct, frozen=True):
    """A frame of Socket Mode."""

    type: str
    envelope_id: str = ""
    """To acknowledge it by; empty for notices about the connection."""
    reason: str = ""
    payload: dict[str, Any] = {}


class File(Struct, frozen=True):
    """A file of a message."""

    id: str
    name: str = ""
    mimetype: str = ""
    size: int = 0
    subtype: str = ""


class Share(Struct, frozen=True):
    """A message that the sender forwarded, or what a link shows."""

    text: str = ""
    author_name: str = ""
    is_share: bool = False


class Message(Struct, frozen=True):
    """A message, or the event that tells of one."""

    ts: str = ""
    """The message's id in its channel: the time of its creation."""
    channel: str = ""
    channel_type: str = ""
    user: str = ""
    text: str = ""
    thread_ts: str = ""
    """The id of the thread's first message, if it is in a thread."""
    parent_user_id: str = ""
    subtype: str = ""
    bot_id: str = ""
    files: tuple[File, ...] = ()
    attachments: tuple[Share, ...] = ()
    edited: "Edited | None" = None
    message: "Message | None" = None
    """The message that was changed."""
    previous_message: "Message | None" = None

    @property
    def thread(self) -> str:
        """Return the thread that the message replies in; empty for a thread's first message."""
        return self.thread_ts if self.thread_ts != self.ts else ""


class Item(Struct, frozen=True):
    """What somebody reacted to."""

    channel: str = ""
    ts: str = ""


class ReactionAdded(Struct, frozen=True):
    """Somebody put an emoji on a message."""

    user: str
    reaction: str
    """The emoji's name, maybe with a skin tone."""
    item: Item
    event_ts: str


class Edited(Struct, frozen=True):
    """When a person changed a message."""

    ts: str


class Authorization(Struct, frozen=True):
    """Our bot in the workspace that an event comes from."""

    user_id: str
    is_bot: bool = False


class Callback(Struct, frozen=True):
    """What the Events API sends."""

    event: dict[str, Any]
    authorizations: tuple[Authorization, ...] = ()


class Command(Struct, frozen=True):
    """A slash command."""

    command: str
    channel_id: str
    user_id: str
    trigger_id: str
    text: str = ""
    user_name: str = ""


class Person(Struct, frozen=True):
    """Who pressed a button."""

    id: str
    name: str = ""
    username: str = ""


class Container(Struct, frozen=True):
    """The message of a pressed button."""

    channel_id: str
    message_ts: str
    thread_ts: str = ""


class Action(Struct, frozen=True):
    """A pressed button."""

    action_ts: str
    value: str


class Interaction(Struct, frozen=True):
    """Presses of buttons."""

    user: Person
    container: Container
    actions: tuple[Action, ...]
    trigger_id: str = ""


def read(payload: Mapping[str, Any], shape: type[_T]) -> _T:
    """Read a payload, or raise msgspec.ValidationError."""
    return convert(_without_nulls(payload), shape)


def read_message(record: object) -> Message:
    """Read a message; parts that cannot be read count as missing."""
    return lenient(_without_nulls(record), Message)


def _without_nulls(value: Any) -> Any:
    """Drop null fields, which Slack sends in place of leaving them out."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _without_nulls(each) for name, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in cast("list[Any]", value)]
    return value
