"""Converts Matrix's events to ours, and our Markdown to its HTML."""

import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from gateway_service.messages import FileKind, MessageEvent, Quote, RemoteFile, Source
from services.validation import convert

if TYPE_CHECKING:
    from nio import MatrixRoom

_log = logging.getLogger(__name__)

_KINDS = {
    "m.image": FileKind.IMAGE,
    "m.audio": FileKind.AUDIO,
    "m.video": FileKind.VIDEO,
    "m.file": FileKind.DOCUMENT,
}
_TEXTS = ("m.text", "m.emote")
_FALLBACK = re.compile(r"\A(?:> .*\n)+\n")
"""The quoted message that older clients put before a reply."""


class Account(Struct, frozen=True):
    """Our own identity in a room."""

    user_id: str
    name: str


class _Reply(Struct, frozen=True):
    event_id: str


class _Relation(Struct, frozen=True):
    rel_type: str = ""
    event_id: str = ""
    is_falling_back: bool = False
    reply: _Reply | None = field(default=None, name="m.in_reply_to")


class _Info(Struct, frozen=True):
    mimetype: str = ""
    size: int = 0


class _Mentions(Struct, frozen=True):
    user_ids: tuple[str, ...] = ()


class Keys(Struct, frozen=True):
    """An encrypted file, and what decrypts it."""

    url: str
    key: dict[str, Any]
    hashes: dict[str, str]
    iv: str


class _Content(Struct, frozen=True):
    msgtype: str = ""
    body: str = ""
    filename: str | None = None
    formatted_body: str = ""
    url: str = ""
    file: Keys | None = None
    info: _Info = _Info()
    relation: _Relation = field(default=_Relation(), name="m.relates_to")
    new: "_Content | None" = field(default=None, name="m.new_content")
    mentions: _Mentions | None = field(default=None, name="m.mentions")
    voice: Any = field(default=None, name="org.matrix.msc3245.voice")


class Message(Struct, frozen=True):
    """A message of a room."""

    event_id: str
    sender: str
    content: _Content
    type: str = ""

    @property
    def replies_to(self) -> str:
        """Return the message that this one replies to; threads name one for older clients."""
        relation = self.content.relation
        return relation.reply.event_id if relation.reply and not relation.is_falling_back else ""


def parse(raw: dict[str, Any]) -> Message | None:
    """Return a message; None for other events, and for those that cannot be read."""
    if raw.get("type") != "m.room.message":
        return None
    try:
        return convert(raw, Message)
    except msgspec.ValidationError as error:
        _log.error("event %s cannot be read and is passed over: %s", raw.get("event_id"), error)
        return None


def read_message(
    message: Message, answered: Message | None, room: "MatrixRoom", me: Account
) -> MessageEvent | None:
    """Return a message if it is for us; `answered` is the one that it replies to."""
    relation = message.content.relation
    is_edit = relation.rel_type == "m.replace"
    content = (message.content.new or message.content) if is_edit else message.content
    files, text = _files(content), content.body
    if files:
        # A body that differs from the file's name is its caption.
        text = text if content.filename not in (None, text) else ""
    elif content.msgtype not in _TEXTS:
        return None
    if message.replies_to:
        text = _FALLBACK.sub("", text)
    # Nobody but the sender checks what an encrypted message names as its thread.
    is_thread = relation.rel_type == "m.thread" and relation.event_id.startswith("$")
    source = _source(message.sender, room, relation.event_id if is_thread else "")
    if source.chat_type != "dm":
        is_reply = answered is not None and answered.sender == me.user_id
        is_named, text = _address(content, text, me)
        if not (is_named or is_reply or text.startswith("/")):
            return None
    return MessageEvent(
        message.event_id,
        source,
        text.strip(),
        replies_to=message.replies_to,
        quotes=_quotes(answered, message.sender, room, me),
        files=files,
        message_id=message.event_id,
        edits=relation.event_id if is_edit else "",
    )


def _files(content: _Content) -> tuple[RemoteFile, ...]:
    kind = _KINDS.get(content.msgtype)
    if kind is None or not (content.url or content.file):
        return ()
    if kind is FileKind.AUDIO and content.voice is not None:
        kind = FileKind.VOICE
    try:
        file_id = msgspec.json.encode(content.file).decode() if content.file else content.url
    except UnicodeEncodeError:  # its keys have half of a surrogate pair
        return ()
    name = content.filename or content.body
    # Nothing says whether it was forwarded.
    return (
        RemoteFile(
            kind, file_id, name, content.info.mimetype, content.info.size, is_forwarded=True
        ),
    )


def _source(sender: str, room: "MatrixRoom", thread_id: str) -> Source:
    return Source(
        platform="matrix",
        chat_id=room.room_id,
        thread_id=thread_id,
        user_id=sender,
        user_name=room.user_name(sender) or sender,
        chat_type="dm" if room.member_count <= 2 else "group",
        chat_name="" if room.member_count <= 2 else room.display_name or "",
    )


def _address(content: _Content, text: str, me: Account) -> tuple[bool, str]:
    """Return whether a message mentions us, and its text without our name at the beginning."""
    names = "|".join(re.escape(name) for name in (me.user_id, me.name) if name)
    begins = re.match(rf"\s*@?(?:{names})\s*[:,]?\s+", text, re.IGNORECASE)
    rest = text[begins.end() :] if begins else text
    if content.mentions is not None:
        return me.user_id in content.mentions.user_ids, rest
    # Clients of before 2023 put a link into the formatted body.
    return bool(begins) or f"matrix.to/#/{me.user_id}" in content.formatted_body, rest


def _quotes(
    answered: Message | None, sender: str, room: "MatrixRoom", me: Account
) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is ours or the sender's own."""
    if answered is None or answered.sender in (sender, me.user_id) or not answered.content.body:
        return ()
    author = room.user_name(answered.sender) or answered.sender
    return (Quote(_FALLBACK.sub("", answered.content.body), author, is_forwarded=False),)


class ContentWriter:
    """Writes the content of text messages."""

    def __init__(self) -> None:
        from markdown_it import MarkdownIt

        parser = MarkdownIt("commonmark", {"html": False})
        self._parser = parser.enable(["table", "strikethrough"])

    def write(self, markdown: str) -> dict[str, Any]:
        return {
            "msgtype": "m.text",
            "body": markdown,
            "format": "org.matrix.custom.html",
            "formatted_body": self._parser.render(markdown).strip(),
        }
