"""Incoming and outgoing messages, independent of the platform."""

import re
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from services.config.redacted_repr import RedactedRepr
from services.home.media_types import media_type
from services.home.project_notes import NotesAbove

DONE = "Done."
"""The outcome of a button whose message shows what was decided."""

CLI = "cli"
"""The platform of clients that are connected to the gateway itself."""
API = "api_server"
"""The platform of clients of the HTTP API, as homes name it."""
WEBHOOK = "webhook"
"""The platform of programs that send events."""


class Address(Struct, frozen=True):
    """An account and a chat."""

    profile: str
    platform: str
    account_id: str
    chat_id: str
    thread_id: str = ""


class Source(Struct, frozen=True, omit_defaults=True):
    """Where a message comes from, and where its answer goes."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""
    user_name: str = ""
    chat_type: str = "dm"
    """dm, group, channel or thread."""
    is_shared: bool = False
    """Whether several people share one session here."""
    target: str = ""
    """Where the answers to a program go, such as `telegram:12345` or `home`; empty for people."""
    answers_to: Address | None = None
    """The chat that the target means; None for this one."""
    chat_name: str = ""
    """The name of a chat of several people; empty if unknown."""

    @property
    def user(self) -> str:
        return f"{self.platform}:{self.user_id or self.user_name}"

    @property
    def has_nobody(self) -> bool:
        """Return whether no person sees the answers."""
        return bool(self.target) and self.answers_to is None


class FileKind(StrEnum):
    """What a received file is."""

    IMAGE = "image"
    VOICE = "voice"
    """Speech that was recorded in the chat."""
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


def find_kind(mime: str) -> FileKind:
    """Return what a file of a MIME type is."""
    major = mime.partition("/")[0]
    return FileKind(major) if major in ("image", "audio", "video") else FileKind.DOCUMENT


class RemoteFile(Struct, frozen=True, omit_defaults=True):
    """A file of a person's message, which is still on the platform."""

    kind: FileKind
    id: str
    """What the platform gives the file for."""
    name: str = ""
    mime: str = ""
    length_bytes: int = 0
    """0 if unknown."""
    is_forwarded: bool = False
    """The sender has it from somebody else."""


class UploadedFile(Struct, frozen=True, omit_defaults=True):
    """A file of a person's message, as the agent has it."""

    file: RemoteFile
    length_bytes: int
    sha256: str


class Quote(Struct, frozen=True, omit_defaults=True):
    """Words of another author in a message."""

    text: str
    author: str
    """The author's name; empty if unknown."""
    is_forwarded: bool
    """The sender forwarded it; else the message replies to it."""


class MessageEvent(Struct, frozen=True, omit_defaults=True):
    """A person's message."""

    event_id: str
    """The platform's id, the same if the event is repeated."""
    source: Source
    text: str
    """The sender's own words; empty for messages without readable text, or with only quotes."""
    replies_to: str = ""
    """The platform's id of the message that this one replies to, if any."""
    quotes: tuple[Quote, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    message_id: str = ""
    """The platform's id of the message itself."""
    edits: str = ""
    """The platform's id of the message that this is a new version of."""
    joint: str | None = None
    """What stands between it and the next part of the same message; None if none is expected."""
    traceparent: str = ""
    """The trace span in which it was received; empty without tracing."""


class ButtonPress(Struct, frozen=True):
    """A press of one of our buttons."""

    event_id: str
    source: Source
    press_id: str
    """The platform's id, to acknowledge the press."""
    data: str


class Reaction(Struct, frozen=True):
    """An emoji that a person put on one of our messages."""

    event_id: str
    source: Source
    message_id: str
    """The platform's id of the message."""
    emoji: str


Event: TypeAlias = MessageEvent | ButtonPress | Reaction


class ChatMove(Struct, frozen=True):
    """A chat got another id, as a group does that becomes a supergroup."""

    old_chat_id: str
    new_chat_id: str


class DeliveryFailure(Struct, frozen=True):
    """A platform accepted a message, and could not deliver it."""

    message_id: str
    reason: str


class Button(Struct, frozen=True):
    """A button under a message."""

    label: str
    data: str
    """At most 64 bytes."""


class Attachment(RedactedRepr, frozen=True):
    """A file of a message."""

    unshown = ("data",)

    name: str
    length_bytes: int
    sha256: str
    data: bytes = b""
    """The content, loaded only for sending; empty elsewhere."""

    @property
    def mime(self) -> str:
        """Return the media type by the name's suffix."""
        return media_type(self.name)


class Content(Struct, frozen=True):
    """The content of a chat message."""

    text: str
    """Markdown; may be empty only with a file."""
    buttons: tuple[Button, ...] = ()
    attachment: Attachment | None = None
    album: tuple[Attachment, ...] = ()
    """Further pictures of the same message, where the platform has albums."""

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Return all of its files."""
        return (self.attachment, *self.album) if self.attachment else ()


class EarlierMessage(Struct, frozen=True):
    """A message that a client says was said before its session began."""

    role: str
    """user or assistant."""
    text: str


class BusyMode(StrEnum):
    """What a message does to its session's running turn."""

    INTERRUPT = "interrupt"
    """The turn ends, and the message is taken next."""
    QUEUE = "queue"
    """The message waits for the turn's end."""
    STEER = "steer"
    """The message joins the turn with its next tool results."""


class TurnRequest(Struct, frozen=True, omit_defaults=True):
    """A turn to start; the same for the same turn id."""

    turn_id: str
    profile: str
    session_id: str
    source: Source
    text: str
    workdir: str = ""
    """The folder of this machine for a new session; empty means a workspace of its own."""
    sandbox_template: str = ""
    """The sandbox template of a new session; empty means the configured one."""
    busy_mode: BusyMode = BusyMode.INTERRUPT
    skip_context_files: bool = False
    """A new session ignores the context files of its folder."""
    notes_above: NotesAbove | None = None
    """The context file of a folder above the new session's."""
    quotes: tuple[Quote, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    """The files of its message."""
    uploads: tuple[UploadedFile, ...] | None = None
    """Those of them that the agent has; None before they are fetched."""
    skill: str = ""
    """The path of the skill whose command the message is; else empty."""
    model: str = ""
    """The model of this turn; empty means that of the session."""
    system_message: str = ""
    """Instructions of the client for a new session."""
    earlier: tuple[EarlierMessage, ...] = ()
    """What was said before a new session."""
    denied: tuple[str, ...] = ()
    """Commands that the sender may not use, directly or in other words."""
    request_digest: str = ""
    """The digest of an HTTP request's body, which a repeated one has again."""
    traceparent: str = ""
    """The trace span in which its message was received; empty without tracing."""

    @property
    def prompt(self) -> str:
        if self.skill:
            _, *rest = self.text.split(maxsplit=1)
            return rest[0] if rest else f"Follow the skill {self.skill}."
        return self.command[1] or self.text

    @property
    def command(self) -> tuple[str, str]:
        """Return the command's name and arguments; empty texts if it is no command."""
        return turn_command(self.text) or ("", "")

    @property
    def own_mode(self) -> BusyMode:
        """Return the mode of its command, or else of its chat."""
        mode = _COMMAND_MODES.get(self.command[0], self.busy_mode)
        must_wait = self.is_shell_command or (self.files and mode is BusyMode.STEER)
        return BusyMode.QUEUE if must_wait else mode

    @property
    def is_shell_command(self) -> bool:
        """Return whether a person at a terminal wrote a command for the sandbox."""
        text = self.text.strip()
        return self.source.platform == CLI and text[:1] == "!" != text and not self.files

    @property
    def remark(self) -> str:
        """Return what the sender is told while it waits for work in progress."""
        return "" if self.is_shell_command else _REMARKS.get(self.own_mode, "")


_REMARKS = {
    BusyMode.QUEUE: "Queued. I answer this when the work in progress has ended.",
    BusyMode.STEER: "Noted. This joins the work in progress with its next results.",
}


COMPRESS, STEER, RETRY, QUEUE = "compress", "steer", "retry", "queue"
_COMMAND_MODES = {
    COMPRESS: BusyMode.QUEUE,
    QUEUE: BusyMode.QUEUE,
    STEER: BusyMode.STEER,
    RETRY: BusyMode.INTERRUPT,
}
_TELLING = (STEER, QUEUE)
"""Commands with a text for the agent."""


def turn_command(text: str) -> tuple[str, str] | None:
    """Return the name and arguments of a command that is a turn; None for other messages."""
    found = re.fullmatch(
        r"/(compress|steer|retry|queue)(?:@\w+)?(?:\s+(.+))?", text.strip(), re.DOTALL
    )
    if found is None or (found[1] in _TELLING) != bool(found[2]):
        return None
    return found[1], found[2] or ""
