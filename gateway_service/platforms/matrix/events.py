"""Converts Matrix's events to ours, and our Markdown to its HTML."""

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gateway_service.messages import FileKind, MessageEvent, Quote, Reaction, RemoteFile, Source
from gateway_service.platforms.base import THUMBS, Json

if TYPE_CHECKING:
    from nio import MatrixRoom

_KINDS = {
    "m.image": FileKind.IMAGE,
    "m.audio": FileKind.AUDIO,
    "m.video": FileKind.VIDEO,
    "m.file": FileKind.DOCUMENT,
}
STICKER = "m.sticker"
_TEXTS = ("m.text", "m.emote")
_FALLBACK = re.compile(r"\A(?:> .*\n)+\n")
"""The quoted message that older clients put before a reply."""


class Account(Struct, frozen=True):
    """Our own identity in a room."""

    user_id: str
    name: str


def answered_id(event: Json) -> str:
    """Return the message that one replies to; threads name one for older clients."""
    relation = _relation(event)
    reply: Json = relation.get("m.in_reply_to") or {}
    return "" if relation.get("is_falling_back") else reply.get("event_id") or ""


def _relation(event: Json) -> Json:
    return event["content"].get("m.relates_to") or {}


def read_message(
    event: Json, answered: Json | None, room: "MatrixRoom", me: Account
) -> MessageEvent | None:
    """Return a message if it is for us, and else None; raises UNREADABLE.

    `answered` is the one that it replies to.
    """
    content, relation, replies_to = event["content"], _relation(event), answered_id(event)
    is_edit = relation.get("rel_type") == "m.replace"
    if is_edit:
        content = content.get("m.new_content") or content
    if event["type"] == STICKER:
        content = {**content, "msgtype": "m.image"}
    files, text = _files(content), content.get("body") or ""
    if files:
        # A body that differs from the file's name is its caption.
        text = text if content.get("filename") not in (None, text) else ""
    elif (kind := content.get("msgtype")) not in _TEXTS:
        if kind != "m.location":  # what is said to be unreadable; others are of bots and programs
            return None
        text = ""
    if replies_to:
        text = _FALLBACK.sub("", text)
    root = relation.get("event_id") or ""
    # Nobody but the sender checks what an encrypted message names as its thread.
    is_thread = relation.get("rel_type") == "m.thread" and root.startswith("$")
    source = _source(event["sender"], room, root if is_thread else "")
    if source.chat_type != "dm":
        is_reply = answered is not None and answered["sender"] == me.user_id
        is_named, text = _address(content, text, me)
        if not (is_named or is_reply or text.startswith("/")):
            return None
    return MessageEvent(
        event["event_id"],
        source,
        text.strip(),
        replies_to=replies_to,
        quotes=_quotes(answered, event["sender"], room, me),
        files=files,
        message_id=event["event_id"],
        edits=root if is_edit else "",
    )


def read_reaction(event: Json, room: "MatrixRoom") -> Reaction | None:
    """Return a thumb that somebody put on a message; raises UNREADABLE."""
    relation, source = _relation(event), _source(event["sender"], room, "")
    if relation.get("rel_type") != "m.annotation" or relation["key"][:1] not in THUMBS.values():
        return None
    return Reaction(event["event_id"], source, relation["event_id"], relation["key"])


def _files(content: Json) -> tuple[RemoteFile, ...]:
    kind, locked = _KINDS.get(content.get("msgtype", "")), content.get("file")
    file_id = json.dumps(locked) if locked else content.get("url")
    if kind is None or not file_id:
        return ()
    if kind is FileKind.AUDIO and "org.matrix.msc3245.voice" in content:
        kind = FileKind.VOICE
    info: Json = content.get("info") or {}
    name = content.get("filename") or content.get("body") or ""
    about = name, info.get("mimetype") or "", info.get("size") or 0
    return (RemoteFile(kind, file_id, *about, is_forwarded=True),)  # nothing says whether it was


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


def _address(content: Json, text: str, me: Account) -> tuple[bool, str]:
    """Return whether a message mentions us, and its text without our name at the beginning."""
    names = "|".join(re.escape(name) for name in (me.user_id, me.name) if name)
    begins = re.match(rf"\s*@?(?:{names})\s*[:,]?\s+", text, re.IGNORECASE)
    rest = text[begins.end() :] if begins else text
    if (mentions := content.get("m.mentions")) is not None:
        return me.user_id in (mentions.get("user_ids") or ()), rest
    # Clients of before 2023 put a link into the formatted body.
    link = f"matrix.to/#/{me.user_id}"
    return bool(begins) or link in (content.get("formatted_body") or ""), rest


def _quotes(
    answered: Json | None, sender: str, room: "MatrixRoom", me: Account
) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is ours or the sender's own."""
    if answered is None or answered["sender"] in (sender, me.user_id):
        return ()
    text: object = answered["content"].get("body")
    if not isinstance(text, str) or not text:
        return ()  # it was deleted
    author = room.user_name(answered["sender"]) or answered["sender"]
    return (Quote(_FALLBACK.sub("", text), author, is_forwarded=False),)


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
