"""Converts Telegram's updates to events."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct, field

from gateway_service.messages import (
    ButtonPress,
    ChatMove,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
)
from gateway_service.platforms.base import passing_over
from gateway_service.platforms.markup import units

if TYPE_CHECKING:
    from telegram import CallbackQuery, Message, MessageOrigin, MessageReactionUpdated, Update, User

MESSAGE_UNITS = 4096
"""How long the text of a message may be, in UTF-16 code units."""

PART_GAP = timedelta(seconds=2)
"""How soon the next part of a message is sent; Telegram's times are whole seconds."""

_T = TypeVar("_T")

_KINDS = {
    "photo": FileKind.IMAGE,
    "sticker": FileKind.IMAGE,
    "voice": FileKind.VOICE,
    "audio": FileKind.AUDIO,
    "video": FileKind.VIDEO,
    "video_note": FileKind.VIDEO,
    "animation": FileKind.VIDEO,
}
_TYPES = {"private": "dm", "group": "group", "supergroup": "group", "channel": "channel"}


class Bot(Struct, frozen=True):
    """Our own identity on Telegram."""

    account_id: str
    username: str
    unfinished: dict[Source, datetime] = field(default_factory=dict[Source, datetime])
    """When somebody in a group sent us a message that usually has another part."""


class _Author(Struct, frozen=True):
    name: str
    id: str = ""
    """The person's id; empty for chats and hidden users."""


def drop_unreadable(answer: dict[str, Any]) -> dict[str, Any]:
    """Strip the updates that the library cannot read to their ids; it would refuse the batch."""
    from telegram import Update

    updates = answer.get("result")
    if not isinstance(updates, list):
        return answer
    found: list[dict[str, Any]] = []
    for each in cast("list[dict[str, Any]]", updates):
        bare = {"update_id": each["update_id"]}
        is_readable = _attempt(each["update_id"], partial(Update.de_json, each, None)) is not None
        found.append(each if is_readable else bare)
    return {**answer, "result": found}


def read_updates(updates: Iterable["Update"], me: Bot) -> list[Event]:
    """Return the events of the updates that are for us."""
    read = (_attempt(each.update_id, partial(_read_update, each, me)) for each in updates)
    return [event for event in read if event is not None]


def find_moves(updates: Iterable["Update"]) -> list[ChatMove]:
    """Return the groups that have become supergroups; both chats say so."""
    found = [_attempt(each.update_id, partial(_read_move, each.message)) for each in updates]
    return [move for move in found if move is not None]


def _read_move(message: "Message | None") -> ChatMove | None:
    if message and message.migrate_to_chat_id:
        return ChatMove(str(message.chat.id), str(message.migrate_to_chat_id))
    if message and message.migrate_from_chat_id:
        return ChatMove(str(message.migrate_from_chat_id), str(message.chat.id))
    return None


def _attempt(update_id: int, read: Callable[[], _T]) -> _T | None:
    """Read an update; None for an unreadable one, which otherwise would come again for ever."""
    with passing_over(f"update {update_id} of telegram"):
        try:
            return read()
        except OSError as error:  # a time that the system does not know
            raise ValueError(str(error)) from error
    return None


def _read_update(update: "Update", me: Bot) -> Event | None:
    event_id = f"{me.account_id}:{update.update_id}"
    if update.message is not None:
        return _message(event_id, update.message, me)
    if update.edited_message is not None:
        return _message(event_id, update.edited_message, me)
    if update.callback_query is not None:
        return _press(event_id, update.callback_query)
    if update.message_reaction is not None:
        return _reaction(event_id, update.message_reaction)
    return None


def _message(event_id: str, message: "Message", me: Bot) -> MessageEvent | None:
    sender = message.from_user
    if sender is None or sender.is_bot:
        return None
    text = message.text or message.caption or ""
    if not text and message.effective_attachment is None:
        return None  # somebody joined, or something was pinned
    source = _source(message, sender)
    mentions = _mentions(message, text, me)
    answered, is_edited = _answered_message(message), message.edit_date is not None
    joint = None if is_edited else _joint(message, message.text or "")
    if source.chat_type != "dm":
        began = None if is_edited else me.unfinished.pop(source, None)
        is_rest = began is not None and message.date - began <= PART_GAP
        if not (mentions or is_rest or _is_ours(answered, text, me)):
            return None
        if joint is not None:
            me.unfinished[source] = message.date
    origin = message.forward_origin
    author = _Author("", str(sender.id)) if origin is None else _author(origin)
    is_forwarded = author.id != str(sender.id)
    files = _files(message, is_forwarded=is_forwarded)
    # Unreadable messages get a notice, so their quotes do not matter.
    quotes = _answered(message, sender, me) if text or files else ()
    if text and is_forwarded:
        # Forwarded text is never a command.
        quotes, text = (*quotes, Quote(text, author.name, is_forwarded=True)), ""
    if source.chat_type != "dm" and not text.startswith("/"):
        text = _without(text, mentions)
    replies_to = str(answered.message_id) if answered else ""
    return MessageEvent(
        event_id,
        source,
        text,
        replies_to=replies_to,
        quotes=quotes,
        files=files,
        message_id=str(message.message_id),
        edits=str(message.message_id) if is_edited else "",
        joint=joint,
    )


def _files(message: "Message", *, is_forwarded: bool) -> tuple[RemoteFile, ...]:
    """Return the message's file, if it has one: a location or a poll is none."""
    found = message.effective_attachment
    if isinstance(found, Sequence):  # the sizes of a picture, the largest last
        found = found[-1] if found else None
    if (sticker := message.sticker) and (sticker.is_animated or sticker.is_video):
        found = sticker.thumbnail
    file_id = getattr(found, "file_id", "")
    if not file_id:
        return ()
    kind = next((kind for name, kind in _KINDS.items() if getattr(message, name)), None)
    return (
        RemoteFile(
            kind or FileKind.DOCUMENT,
            file_id,
            getattr(found, "file_name", None) or "",
            getattr(found, "mime_type", None) or "",
            getattr(found, "file_size", None) or 0,
            is_forwarded,
        ),
    )


def _joint(message: "Message", text: str) -> str | None:
    """Return what stands between a message and its next part; None if none is expected.

    Clients cut long texts at a word or line in the second half of what a message may have, albums
    into single files, and forwards into single messages.
    """
    length = units(text)
    if length >= MESSAGE_UNITS:
        return ""
    is_part = length > MESSAGE_UNITS // 2 or message.media_group_id or message.forward_origin
    return "\n" if is_part else None


def _answered(message: "Message", sender: "User", me: Bot) -> tuple[Quote, ...]:
    """Return the message that is replied to, unless it is the bot's or the sender's own."""
    answered, elsewhere, part = _answered_message(message), message.external_reply, message.quote
    if answered is not None:
        author, said = _author_of(answered), answered.text or answered.caption or ""
    elif elsewhere is not None:
        author, said = _author(elsewhere.origin), ""
    else:
        return ()
    said = part.text if part is not None else said
    if not said or author.id in (str(sender.id), me.account_id):
        return ()
    return (Quote(said, author.name, is_forwarded=False),)


def _author_of(message: "Message") -> _Author:
    """Return a message's author; the sender may have forwarded it."""
    if message.forward_origin is not None:
        return _author(message.forward_origin)
    if message.sender_chat is not None:
        return _Author(message.sender_chat.title or "")
    sender = message.from_user
    return _Author("") if sender is None else _Author(sender.full_name, str(sender.id))


def _author(origin: "MessageOrigin") -> _Author:
    """Return what is known of the author: a person, a chat, or only a name."""
    if (user := getattr(origin, "sender_user", None)) is not None:
        return _Author(user.full_name, str(user.id))
    chat = getattr(origin, "sender_chat", None) or getattr(origin, "chat", None)
    return _Author(getattr(origin, "sender_user_name", "") or getattr(chat, "title", "") or "")


def _press(event_id: str, query: "CallbackQuery") -> ButtonPress | None:
    from telegram import Message

    if not isinstance(query.message, Message) or not query.data:
        return None
    source = _source(query.message, query.from_user)
    return ButtonPress(event_id, source, query.id, query.data)


def _reaction(event_id: str, update: "MessageReactionUpdated") -> Reaction | None:
    person, chat = update.user, update.chat
    old = [getattr(each, "emoji", "") for each in update.old_reaction]
    new = [getattr(each, "emoji", "") for each in update.new_reaction]
    added = next((each for each in new if each and each not in old), "")
    if person is None or not added:
        return None
    source = Source(
        platform="telegram",
        chat_id=str(chat.id),
        user_id=str(person.id),
        user_name=person.full_name,
        chat_type=_TYPES.get(chat.type, "group"),
    )
    return Reaction(event_id, source, str(update.message_id), added)


def _source(message: "Message", sender: "User") -> Source:
    is_topic = bool(message.is_topic_message and message.message_thread_id)
    return Source(
        platform="telegram",
        chat_id=str(message.chat.id),
        thread_id=str(message.message_thread_id) if is_topic else "",
        user_id=str(sender.id),
        user_name=sender.full_name,
        chat_name=message.chat.title or "",
        chat_type=_TYPES.get(message.chat.type, "group"),
    )


def _answered_message(message: "Message") -> "Message | None":
    """Return the message that is replied to; in topics, other messages refer to the opening."""
    answered = message.reply_to_message
    return None if answered is None or answered.forum_topic_created else answered


def _is_ours(answered: "Message | None", text: str, me: Bot) -> bool:
    """Whether a message answers us, or is a command that names no other bot."""
    author = answered and answered.from_user
    if author and str(author.id) == me.account_id:
        return True
    if not text.startswith("/"):
        return False
    word = text.split(maxsplit=1)[0]
    return "@" not in word or word.lower().endswith(f"@{me.username}".lower())


def _mentions(message: "Message", text: str, me: Bot) -> list[tuple[int, int]]:
    """Return where a message mentions us: its entities decide, or the text if it has none."""
    entities = message.entities or message.caption_entities
    if not entities:
        exact = re.compile(rf"(?<![\w@/])@{re.escape(me.username)}(?![\w@]|\.\w)", re.IGNORECASE)
        return [(units(text[: each.start()]), units(each[0])) for each in exact.finditer(text)]
    parts = message.parse_entities() if message.text else message.parse_caption_entities()
    return [
        (entity.offset, entity.length)
        for entity, part in parts.items()
        if (entity.type == "mention" and part.lower() == f"@{me.username}".lower())
        or (entity.user is not None and str(entity.user.id) == me.account_id)
    ]


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text without some spans: their offsets and lengths in UTF-16 code units."""
    encoded = text.encode("utf-16-le")
    for offset, length in sorted(spans, reverse=True):
        encoded = encoded[: 2 * offset] + encoded[2 * (offset + length) :]
    return encoded.decode("utf-16-le").strip()
